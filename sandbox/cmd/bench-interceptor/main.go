// Command bench-interceptor compares the interceptor with Envoy, nginx and an
// httputil.ReverseProxy, and measures how long a new weight takes from the API
// server to the first request. It prints figures, ratios and bars, and fails for
// none of them: `make bench-interceptor` builds what it needs and runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/proxyworld"
)

// options are the flags.
type options struct {
	interceptor, floor, envoy, nginx, routes, crd string
	parts                                         string
}

// parts are the measurements, in the order in which they are done.
var parts = []string{"table", "throughput", "propagation", "memory"}

func (o *options) has(part string) bool {
	return o.parts == "" || slices.Contains(strings.Split(o.parts, ","), part)
}

func (o *options) check() error {
	for _, part := range strings.Split(o.parts, ",") {
		if part != "" && !slices.Contains(parts, part) {
			return fmt.Errorf("there is no part %q; there are %s", part, strings.Join(parts, ", "))
		}
	}
	for _, needed := range []struct{ name, value string }{
		{"interceptor", o.interceptor}, {"floor", o.floor}, {"envoy", o.envoy}, {"routes", o.routes}, {"crd", o.crd},
	} {
		if needed.value == "" {
			return fmt.Errorf("-%s is needed; `make bench-interceptor` gives it", needed.name)
		}
	}
	return nil
}

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) == 2 && os.Args[1] == proxyworld.LoadCommand {
		if err := proxyworld.ServeLoad(); err != nil {
			fmt.Fprintln(os.Stderr, "bench-interceptor load:", err)
			return 1
		}
		return 0
	}
	var o options
	flag.StringVar(&o.interceptor, "interceptor", "", "the interceptor as released")
	flag.StringVar(&o.floor, "floor", "", "the httputil.ReverseProxy (bench/reverseproxy)")
	flag.StringVar(&o.envoy, "envoy", "", "Envoy")
	flag.StringVar(&o.nginx, "nginx", "", "nginx; without one it is left out")
	flag.StringVar(&o.routes, "routes", "", "the compiled tests of internal/interceptor/routes")
	flag.StringVar(&o.crd, "crd", "", "the HTTPScaledObject CRD")
	flag.StringVar(&o.parts, "parts", "", "what to measure, of "+strings.Join(parts, ", ")+"; separated by commas, all without")
	flag.Parse()
	if err := o.check(); err != nil {
		fmt.Fprintln(os.Stderr, "bench-interceptor:", err)
		return 2
	}
	var err error
	if cluster.Inside() {
		err = measure(ctx, &o)
	} else {
		err = gauge.Enter(ctx)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "bench-interceptor:", err)
		return 1
	}
	return 0
}

// world is the environment of all measurements but that of the table.
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
	began := time.Now()
	if o.has("table") {
		if err := table(ctx, o); err != nil {
			return err
		}
	}
	if !o.has("throughput") && !o.has("propagation") && !o.has("memory") {
		return nil
	}
	proxies, err := proxyworld.New(ctx, proxyworld.Programs{Interceptor: o.interceptor, Envoy: o.envoy}, o.crd)
	if err != nil {
		return err
	}
	defer proxies.Close()
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
	if o.has("memory") {
		if err := w.underLoad(ctx, figures); err != nil {
			return fmt.Errorf("memory under load: %w", err)
		}
	}
	if err := w.Grow(ctx, objects); err != nil {
		return err
	}
	if o.has("throughput") {
		for workers := 1; workers <= 2; workers++ {
			if err := w.throughput(ctx, workers); err != nil {
				return fmt.Errorf("throughput: %w", err)
			}
		}
	}
	if o.has("propagation") {
		if err := w.carry(ctx, figures); err != nil {
			return err
		}
	}
	if o.has("propagation") || o.has("memory") {
		if err := w.Grow(ctx, manyObjects); err != nil {
			return err
		}
		if err := w.startUp(ctx, figures); err != nil {
			return fmt.Errorf("start: %w", err)
		}
		if err := w.carry(ctx, figures); err != nil {
			return err
		}
	}
	gauge.Say("done in %s", time.Since(began).Round(time.Second))
	return nil
}
