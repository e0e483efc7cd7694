// Command bench-scaling measures what scaling by KEDA costs and how soon an application
// wakes up, each beside a baseline. It prints figures, ratios and bars, and fails for
// none of them: `make bench-scaling` builds what it needs and runs it.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/keda"
	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/proxyworld"
)

// options are the flags, and what is to be measured.
type options struct {
	interceptor, envoy, proxy, crd             string
	scaler, barecache, loadreports, getmetrics string
	parts                                      gauge.Parts
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == proxyworld.LoadCommand {
		os.Exit(proxyworld.ServeLoad())
	}
	var o options
	program := gauge.Program{
		Name:  "bench-scaling",
		Parts: []string{"rate", "envoy", "metrics", "memory", wakePart},
		Enter: enter,
		Measure: func(ctx context.Context, parts gauge.Parts) error {
			o.parts = parts
			return measure(ctx, &o)
		},
	}
	program.Need(&o.interceptor, "interceptor", "the interceptor as released")
	program.Need(&o.envoy, "envoy", "Envoy")
	program.Need(&o.proxy, "proxy", "the compiled tests of internal/interceptor/proxy")
	program.Need(&o.crd, "crd", "the HTTPScaledObject CRD")
	program.Need(&o.scaler, "scaler", "the scaler as released")
	program.Need(&o.barecache, "barecache", "the bare cache (bench/barecache)")
	program.Need(&o.loadreports, "loadreports", "what reports requests as an interceptor does (bench/loadreports)")
	program.Need(&o.getmetrics, "getmetrics", "what asks the scaler as KEDA does (bench/getmetrics)")
	os.Exit(program.Run())
}

// enter runs the parts in sandboxes of their own: KEDA is in that of wake alone, as it would
// take processor time from the others.
func enter(ctx context.Context, parts gauge.Parts) error {
	with := func(parts gauge.Parts) []string { return append(slices.Clone(os.Args[1:]), "-parts", parts.String()) }
	bare := slices.DeleteFunc(slices.Clone(parts), func(part string) bool { return part == wakePart })
	if len(bare) > 0 {
		if err := gauge.EnterWith(ctx, with(bare)); err != nil {
			return err
		}
	}
	if !parts.Has(wakePart) {
		return nil
	}
	return gauge.EnterWith(ctx, with(gauge.Parts{wakePart}), keda.Name)
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
func measure(ctx context.Context, o *options) error {
	began := time.Now()
	proxies, err := proxyworld.New(ctx, proxyworld.Programs{Interceptor: o.interceptor, Envoy: o.envoy}, o.crd)
	if err != nil {
		return err
	}
	defer proxies.Close()
	if o.parts.Has(wakePart) {
		return (&world{options: o, World: proxies}).wake(ctx)
	}
	if err := proxies.StopNode(ctx); err != nil {
		return err
	}
	w := &world{options: o, World: proxies}
	if err := w.measureFew(ctx); err != nil {
		return err
	}
	if o.parts.Has("envoy") {
		if err := w.idleEnvoy(ctx); err != nil {
			return fmt.Errorf("envoy: %w", err)
		}
	}
	if err := w.measureMany(ctx); err != nil {
		return err
	}
	gauge.Say("done in %s", time.Since(began).Round(time.Second))
	return nil
}

// measureFew measures what needs few objects.
func (w *world) measureFew(ctx context.Context) error {
	if err := w.Grow(ctx, fewObjects); err != nil {
		return err
	}
	if w.parts.Has("rate") {
		if err := w.rate(ctx); err != nil {
			return fmt.Errorf("rate: %w", err)
		}
	}
	if w.parts.Has("metrics") {
		var err error
		if w.few, err = w.timeMetrics(ctx); err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
	}
	return nil
}

// measureMany measures what needs many objects.
func (w *world) measureMany(ctx context.Context) error {
	if !w.parts.Has("metrics", "memory") {
		return nil
	}
	if err := w.Grow(ctx, manyObjects); err != nil {
		return err
	}
	if w.parts.Has("metrics") {
		many, err := w.timeMetrics(ctx)
		if err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
		printMetrics(w.few, many)
	}
	if w.parts.Has("memory") {
		if err := w.memory(ctx); err != nil {
			return fmt.Errorf("memory: %w", err)
		}
	}
	return nil
}
