package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

// workers is the default number of the controller's workers.
const workers = 10

// world is the environment of all measurements.
type world struct {
	*options
	*gauge.Cluster
	counter *counter
	outside *outside
	dir     string
	// steps are the waiting steps that standing has made; nil if there are none.
	steps []*step
}

func newWorld(ctx context.Context, o *options) (w *world, err error) {
	crds, err := filepath.Glob(filepath.Join(o.crds, "*-crd.yaml"))
	if err != nil {
		return nil, err
	}
	w = &world{options: o}
	if w.Cluster, err = gauge.Connect(ctx, crds...); err != nil {
		return nil, err
	}
	// Not needed, as there are no pods.
	if err := gauge.Stop(ctx, cluster.Scheduler, cluster.Node); err != nil {
		return nil, err
	}
	if w.outside, err = newOutside(); err != nil {
		return nil, err
	}
	if w.dir, err = os.MkdirTemp("", "bench-step-"); err != nil {
		return nil, err
	}
	if w.counter, err = newCounter(w.Config, filepath.Join(w.dir, "kubeconfig")); err == nil {
		// Plugins started from here inherit it.
		err = os.Setenv("KUBECONFIG", w.counter.kubeconfig)
	}
	if err != nil {
		w.close()
	}
	return w, err
}

func (w *world) close() {
	if err := os.RemoveAll(w.dir); err != nil {
		gauge.Say("cleaning up: %v", err)
	}
}
