// Command bench-interceptor compares the interceptor with Envoy, nginx and an
// httputil.ReverseProxy, and measures how long a new weight takes from the API
// server to the first request. It prints figures, ratios and bars, and fails for
// none of them: `make bench-interceptor` builds what it needs and runs it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/proxyworld"
)

// options are the flags, and what is to be measured.
type options struct {
	proxyworld.Programs
	floor, nginx, crd string
	parts             gauge.Parts
}

func main() {
	var o options
	program := gauge.Program{
		Name:  "bench-interceptor",
		Parts: []string{"throughput", "propagation", "memory"},
		Measure: func(ctx context.Context, parts gauge.Parts) error {
			o.parts = parts
			return measure(ctx, &o)
		},
	}
	program.Need(&o.Interceptor, "interceptor", "the interceptor as released")
	program.Need(&o.floor, "floor", "the httputil.ReverseProxy (bench/reverseproxy)")
	program.Need(&o.Envoy, "envoy", "Envoy")
	flag.StringVar(&o.nginx, "nginx", "", "nginx; without one it is left out")
	program.Need(&o.crd, "crd", "the HTTPScaledObject CRD")
	os.Exit(program.Run())
}

// world is the environment of all measurements.
type world struct {
	*options
	*proxyworld.World
}

const (
	fewObjects  = 10
	objects     = 1000
	manyObjects = 10000
)

// measure is run inside a sandbox of its own.
func measure(ctx context.Context, o *options) error {
	proxies, err := proxyworld.New(ctx, o.Programs, o.crd)
	if err != nil {
		return err
	}
	if err := proxies.StopNode(ctx); err != nil {
		return err
	}
	w := &world{o, proxies}
	figures := gauge.NewTable("what\tmeasured\tbar")
	defer figures.Print()
	if err := w.Grow(ctx, fewObjects); err != nil {
		return err
	}
	if err := w.SetWeight(ctx, proxied, 20); err != nil {
		return err
	}
	if o.parts.Has("memory") {
		if err := w.underLoad(ctx, figures); err != nil {
			return fmt.Errorf("memory under load: %w", err)
		}
	}
	if err := w.Grow(ctx, objects); err != nil {
		return err
	}
	if o.parts.Has("throughput") {
		for workers := 1; workers <= 2; workers++ {
			if err := w.throughput(ctx, workers); err != nil {
				return fmt.Errorf("throughput: %w", err)
			}
		}
	}
	if o.parts.Has("propagation") {
		if err := w.carry(ctx, figures); err != nil {
			return err
		}
	}
	if !o.parts.Has("propagation", "memory") {
		return nil
	}
	if err := w.Grow(ctx, manyObjects); err != nil {
		return err
	}
	return w.carry(ctx, figures)
}
