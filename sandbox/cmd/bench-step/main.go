// Command bench-step measures rollouts-plugin-step beside a step plugin that does nothing:
// over RPC against a real API server, and under the real Argo Rollouts controller. It prints
// figures and ratios and fails for none of them: `make bench-step` builds what it needs and
// runs it.
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
)

// options are the flags.
type options struct {
	plugin, idle, controller, crds string
	parts                          string
}

// parts are the measurements, in the order in which they are done.
var parts = []struct {
	name    string
	measure func(*world, context.Context) error
}{
	{"memory", (*world).memory},
	{"start", (*world).start},
	{"run", (*world).run},
	{"requests", (*world).requests},
	{"controller", (*world).delays},
}

func (o *options) check() error {
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	for _, part := range strings.Split(o.parts, ",") {
		if part != "" && !slices.Contains(names, part) {
			return fmt.Errorf("there is no part %q; there are %s", part, strings.Join(names, ", "))
		}
	}
	for _, needed := range []struct{ name, value string }{
		{"plugin", o.plugin}, {"idle", o.idle}, {"controller", o.controller}, {"crds", o.crds},
	} {
		if needed.value == "" {
			return fmt.Errorf("-%s is needed; `make bench-step` gives it", needed.name)
		}
	}
	return nil
}

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	flag.StringVar(&o.plugin, "plugin", "", "rollouts-plugin-step as released")
	flag.StringVar(&o.idle, "idle", "", "the step plugin that does nothing (bench/idlestep)")
	flag.StringVar(&o.controller, "controller", "", "the Argo Rollouts controller")
	flag.StringVar(&o.crds, "crds", "", "the directory of Argo Rollouts' CRDs")
	flag.StringVar(&o.parts, "parts", "", "what to measure, separated by commas; all without")
	flag.Parse()
	if err := o.check(); err != nil {
		fmt.Fprintln(os.Stderr, "bench-step:", err)
		return 2
	}
	var err error
	if cluster.Inside() {
		err = measure(ctx, &o)
	} else {
		err = gauge.Enter(ctx)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "bench-step:", err)
		return 1
	}
	return 0
}

// measure is run inside a sandbox of its own.
func measure(ctx context.Context, o *options) error {
	began := time.Now()
	w, err := newWorld(ctx, o)
	if err != nil {
		return err
	}
	defer w.close()
	for _, part := range parts {
		if o.parts != "" && !slices.Contains(strings.Split(o.parts, ","), part.name) {
			continue
		}
		if err := part.measure(w, ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	gauge.Say("done in %s", time.Since(began).Round(time.Second))
	return nil
}
