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

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/keda"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/proxyworld"
)

// options are the flags.
type options struct {
	interceptor, envoy, proxy, crd             string
	scaler, barecache, loadreports, getmetrics string
	parts                                      string
}

// parts are the measurements, in the order in which they are done.
var parts = []string{"rate", "envoy", "metrics", "memory", wakePart}

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
		{"scaler", o.scaler}, {"barecache", o.barecache}, {"loadreports", o.loadreports}, {"getmetrics", o.getmetrics},
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
	flag.StringVar(&o.scaler, "scaler", "", "the scaler as released")
	flag.StringVar(&o.barecache, "barecache", "", "the bare cache (bench/barecache)")
	flag.StringVar(&o.loadreports, "loadreports", "", "what reports requests as an interceptor does (bench/loadreports)")
	flag.StringVar(&o.getmetrics, "getmetrics", "", "what asks the scaler as KEDA does (bench/getmetrics)")
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
		err = o.enter(ctx)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "bench-scaling:", err)
		return 1
	}
	return 0
}

// enter runs the parts in sandboxes of their own: KEDA is in that of wake alone, as it would
// take processor time from the others.
func (o *options) enter(ctx context.Context) error {
	var bare []string
	for _, part := range parts {
		if part != wakePart && o.has(part) {
			bare = append(bare, part)
		}
	}
	with := func(parts string) []string { return append(slices.Clone(os.Args[1:]), "-parts", parts) }
	if len(bare) > 0 {
		if err := gauge.EnterWith(ctx, with(strings.Join(bare, ","))); err != nil {
			return err
		}
	}
	if !o.has(wakePart) {
		return nil
	}
	return gauge.EnterWith(ctx, with(wakePart), keda.Name)
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
	if o.parts == wakePart {
		return (&world{options: o, World: proxies}).wake(ctx)
	}
	if err := proxies.StopNode(ctx); err != nil {
		return err
	}
	w := &world{options: o, World: proxies}
	if err := w.measureFew(ctx); err != nil {
		return err
	}
	if o.has("envoy") {
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
	if w.has("rate") {
		if err := w.rate(ctx); err != nil {
			return fmt.Errorf("rate: %w", err)
		}
	}
	if w.has("metrics") {
		var err error
		if w.few, err = w.timeMetrics(ctx); err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
	}
	return nil
}

// measureMany measures what needs many objects.
func (w *world) measureMany(ctx context.Context) error {
	if !w.has("metrics") && !w.has("memory") {
		return nil
	}
	if err := w.Grow(ctx, manyObjects); err != nil {
		return err
	}
	if w.has("metrics") {
		many, err := w.timeMetrics(ctx)
		if err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
		printMetrics(w.few, many)
	}
	if w.has("memory") {
		if err := w.memory(ctx); err != nil {
			return fmt.Errorf("memory: %w", err)
		}
	}
	return nil
}
