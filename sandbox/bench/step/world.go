package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

// workers is the default number of the controller's workers.
const workers = 10

// world is the environment of all measurements.
type world struct {
	*options
	config  *rest.Config
	client  dynamic.Interface
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
	config, client, err := gauge.Connect(ctx, crds...)
	if err != nil {
		return nil, err
	}
	w.config, w.client = config, client
	// Not needed, as there are no pods.
	for _, component := range []string{cluster.Scheduler, cluster.Node} {
		if err := cluster.Component(ctx, "stop", component); err != nil {
			return nil, err
		}
	}
	if w.dir, err = os.MkdirTemp("", "bench-step-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.counter, err = newCounter(config, filepath.Join(w.dir, "kubeconfig")); err != nil {
		return nil, err
	}
	// Plugins and controllers started from here inherit it.
	if err := os.Setenv("KUBECONFIG", w.counter.kubeconfig); err != nil {
		return nil, err
	}
	w.outside, err = newOutside()
	return w, err
}

func (w *world) close() {
	var failures []error
	if w.counter != nil {
		failures = append(failures, w.counter.Close())
	}
	if w.outside != nil {
		failures = append(failures, w.outside.Close())
	}
	failures = append(failures, os.RemoveAll(w.dir))
	if err := errors.Join(failures...); err != nil {
		gauge.Say("cleaning up: %v", err)
	}
}
