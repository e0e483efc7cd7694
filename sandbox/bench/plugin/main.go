// Command bench measures the plugins over RPC against a real API server, each beside a
// build whose calls do nothing and one with client-go's default rate limit. It prints
// figures and ratios and judges none: `make bench` builds them all and runs it.
package main

import (
	"context"
	"os"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
)

// The plugins, as -parts has them.
const (
	kedifyName     = "kedify"
	gatewayAPIName = "gatewayapi"
)

func main() {
	var plugin, gatewayAPIPlugin, idle, throttled, rewriting, crd, rolloutCRD, routeCRD string
	program := gauge.Program{
		Name:  "bench-plugin",
		Parts: []string{kedifyName, gatewayAPIName},
		Measure: func(ctx context.Context, parts gauge.Parts) error {
			var subjects []subject
			if parts.Has(kedifyName) {
				subjects = append(subjects, kedify(plugin, idle, throttled))
			}
			if parts.Has(gatewayAPIName) {
				subjects = append(subjects, gatewayAPI(gatewayAPIPlugin, idle, rewriting))
			}
			return measure(ctx, subjects, crd, rolloutCRD, routeCRD)
		},
	}
	program.Need(&plugin, "kedify", "rollouts-plugin-kedify as released")
	program.Need(&gatewayAPIPlugin, "gatewayapi", "rollouts-plugin-gatewayapi as released")
	program.Need(&idle, "idle", "the build whose calls do nothing")
	program.Need(&throttled, "throttled", "the router kedify/http with client-go's default rate limit")
	program.Need(&rewriting, "rewriting", "the stand-in that reads and updates its HTTPRoute at each call, with that limit")
	program.Need(&crd, "crd", "the HTTPScaledObject CRD")
	program.Need(&rolloutCRD, "rollout-crd", "the Rollout CRD")
	program.Need(&routeCRD, "route-crd", "the HTTPRoute CRD")
	os.Exit(program.Run())
}
