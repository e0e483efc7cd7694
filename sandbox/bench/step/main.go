// Command bench-step measures rollouts-plugin-step beside a step plugin that does nothing:
// over RPC against a real API server, and under the real Argo Rollouts controller. It prints
// figures and ratios and fails for none of them: `make bench-step` builds what it needs and
// runs it.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
)

// options are the flags.
type options struct{ plugin, idle, controller, crds string }

// parts are the measurements, in the order in which they are done.
var parts = []struct {
	name    string
	measure func(*world, context.Context) error
}{
	{"memory", (*world).memory},
	{"start", (*world).start},
	{"run", (*world).run},
	{"requests", (*world).requests},
	{"regions", (*world).regions},
	{"controller", (*world).delays},
}

func main() {
	var o options
	program := gauge.Program{
		Name:    "bench-step",
		Measure: func(ctx context.Context, parts gauge.Parts) error { return measure(ctx, &o, parts) },
	}
	for _, part := range parts {
		program.Parts = append(program.Parts, part.name)
	}
	program.Need(&o.plugin, "plugin", "rollouts-plugin-step as released")
	program.Need(&o.idle, "idle", "the step plugin that does nothing (bench/idlestep)")
	program.Need(&o.controller, "controller", "the Argo Rollouts controller")
	program.Need(&o.crds, "crds", "the directory of Argo Rollouts' CRDs")
	os.Exit(program.Run())
}

// measure is run inside a sandbox of its own.
func measure(ctx context.Context, o *options, chosen gauge.Parts) error {
	w, err := newWorld(ctx, o)
	if err != nil {
		return err
	}
	defer w.close()
	for _, part := range parts {
		if !chosen.Has(part.name) {
			continue
		}
		if err := part.measure(w, ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}
