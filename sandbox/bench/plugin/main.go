// Command bench-plugin measures the plugins over RPC against a real API server, each beside a
// build whose calls do nothing and one that client-go throttles. It prints figures, ratios and
// bars, and fails for none of them: `make bench-plugin` builds what it needs and runs it.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
)

func main() {
	var plugin, gatewayAPIPlugin, idle, throttled, rewriting, crd, rolloutCRD, routeCRD string
	program := gauge.Program{
		Name:  "bench-plugin",
		Parts: []string{"kedify", "gatewayapi"},
		Measure: func(ctx context.Context, parts gauge.Parts) error {
			connected, err := gauge.Connect(ctx, crd, rolloutCRD, routeCRD)
			if err != nil {
				return err
			}
			for _, s := range []subject{kedify(plugin, throttled), gatewayAPI(gatewayAPIPlugin, rewriting)} {
				if !parts.Has(s.name) {
					continue
				}
				if err := (&bench{connected, s, idle}).measure(ctx); err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
			}
			return nil
		},
	}
	program.Need(&plugin, "kedify", "rollouts-plugin-kedify as released")
	program.Need(&gatewayAPIPlugin, "gatewayapi", "rollouts-plugin-gatewayapi as released")
	program.Need(&idle, "idle", "the build whose calls do nothing")
	program.Need(&throttled, "throttled", "rollouts-plugin-kedify with client-go's default rate limit")
	program.Need(&rewriting, "rewriting", "the stand-in that reads and updates its HTTPRoute at each call, with that limit")
	program.Need(&crd, "crd", "the HTTPScaledObject CRD")
	program.Need(&rolloutCRD, "rollout-crd", "the Rollout CRD")
	program.Need(&routeCRD, "route-crd", "the HTTPRoute CRD")
	os.Exit(program.Run())
}
