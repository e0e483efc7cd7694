// Command bench-scaling measures what scaling by KEDA costs and how soon an application
// wakes up, each beside a baseline. It prints figures, ratios and bars, and fails for
// none of them: `make bench-scaling` builds what it needs and runs it.
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
	interceptor, envoy, proxy, crd string
	parts                          string
}

// parts are the measurements, in the order in which they are done.
var parts = []string{"rate", "envoy"}

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
		{"interceptor", o.interceptor}, {"envoy", o.envoy}, {"proxy", o.proxy}, {"crd", o.crd},
	} {
		if needed.value == "" {
			return fmt.Errorf("-%s is needed; `make bench-scaling` gives it", needed.name)
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
			fmt.Fprintln(os.Stderr, "bench-scaling load:", err)
			return 1
		}
		return 0
	}
	var o options
	flag.StringVar(&o.interceptor, "interceptor", "", "the interceptor as released")
	flag.StringVar(&o.envoy, "envoy", "", "Envoy")
	flag.StringVar(&o.proxy, "proxy", "", "the compiled tests of internal/interceptor/proxy")
	flag.StringVar(&o.crd, "crd", "", "the HTTPScaledObject CRD")
	flag.StringVar(&o.parts, "parts", "", "what to measure, of "+strings.Join(parts, ", ")+"; separated by commas, all without")
	flag.Parse()
	if err := o.check(); err != nil {
		fmt.Fprintln(os.Stderr, "bench-scaling:", err)
		return 2
	}
	var err error
	if cluster.Inside() {
		err = measure(ctx, &o)
	} else {
		err = gauge.Enter(ctx)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "bench-scaling:", err)
		return 1
	}
	return 0
}

// world is the environment of all measurements.
type world struct {
	*options
	*proxyworld.World
}

// measure is run inside a sandbox of its own.
func measure(ctx context.Context, o *options) error {
	began := time.Now()
	proxies, err := proxyworld.New(ctx, proxyworld.Programs{Interceptor: o.interceptor, Envoy: o.envoy}, o.crd)
	if err != nil {
		return err
	}
	defer proxies.Close()
	w := &world{o, proxies}
	if o.has("rate") {
		if err := w.rate(ctx); err != nil {
			return fmt.Errorf("rate: %w", err)
		}
	}
	if o.has("envoy") {
		if err := w.idleEnvoy(ctx); err != nil {
			return fmt.Errorf("envoy: %w", err)
		}
	}
	gauge.Say("done in %s", time.Since(began).Round(time.Second))
	return nil
}
