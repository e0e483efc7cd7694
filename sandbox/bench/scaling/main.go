// Command bench-scaling measures what scaling by KEDA costs and how soon an application
// wakes up, each beside a baseline. It prints figures, ratios and bars, and fails for
// none of them: `make bench-scaling` builds what it needs and runs it.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/keda"
	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/proxyworld"
)

// options are the flags.
type options struct {
	proxyworld.Programs
	proxy, crd, scaler, barecache, loadreports, getmetrics string
}

func main() {
	var o options
	program := gauge.Program{
		Name:      "bench-scaling",
		Parts:     []string{"rate", "envoy", "metrics", "memory", "wake"},
		Alone:     "wake",
		AloneWith: []string{keda.Name},
		Measure:   func(ctx context.Context, parts gauge.Parts) error { return measure(ctx, &o, parts) },
	}
	program.Need(&o.Interceptor, "interceptor", "the interceptor as released")
	program.Need(&o.Envoy, "envoy", "Envoy")
	program.Need(&o.proxy, "proxy", "the compiled tests of internal/interceptor/proxy")
	program.Need(&o.crd, "crd", "the HTTPScaledObject CRD")
	program.Need(&o.scaler, "scaler", "the scaler as released")
	program.Need(&o.barecache, "barecache", "the bare cache (bench/barecache)")
	program.Need(&o.loadreports, "loadreports", "what reports requests as an interceptor does (bench/loadreports)")
	program.Need(&o.getmetrics, "getmetrics", "what asks the scaler as KEDA does (bench/getmetrics)")
	os.Exit(program.Run())
}

// world is the environment of all measurements.
type world struct {
	*options
	*proxyworld.World
	few answers // of a scaler with fewObjects
}

const (
	fewObjects  = 10
	manyObjects = 10_000
)

// measure is run inside a sandbox of its own.
func measure(ctx context.Context, o *options, parts gauge.Parts) error {
	proxies, err := proxyworld.New(ctx, o.Programs, o.crd)
	if err != nil {
		return err
	}
	w := &world{options: o, World: proxies}
	if parts.Has("wake") {
		return w.wake(ctx)
	}
	if err := w.StopNode(ctx); err != nil {
		return err
	}
	for _, step := range []struct {
		part    string
		objects int
		measure func(context.Context) error
	}{
		{"rate", fewObjects, w.rate},
		{"metrics", fewObjects, w.fewMetrics},
		{"envoy", idleObjects, w.idleEnvoy},
		{"metrics", manyObjects, w.manyMetrics},
		{"memory", manyObjects, w.memory},
	} {
		if !parts.Has(step.part) {
			continue
		}
		if err := w.Grow(ctx, step.objects); err != nil {
			return err
		}
		if err := step.measure(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.part, err)
		}
	}
	return nil
}
