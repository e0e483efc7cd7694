// Command bench measures the plugins over RPC against a real API server, each beside a
// build whose calls do nothing and one with client-go's default rate limit. It prints
// figures and ratios and judges none: `make bench` builds them all and runs it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/gauge"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	paths := map[string]*string{}
	for name, what := range map[string]string{
		"kedify":      "rollouts-plugin-kedify as released",
		"gatewayapi":  "rollouts-plugin-gatewayapi as released",
		"idle":        "the build whose calls do nothing",
		"throttled":   "the router kedify/http with client-go's default rate limit",
		"rewriting":   "the stand-in that reads and updates its HTTPRoute at each call, with that limit",
		"crd":         "the HTTPScaledObject CRD",
		"rollout-crd": "the Rollout CRD",
		"route-crd":   "the HTTPRoute CRD",
	} {
		paths[name] = flag.String(name, "", what)
	}
	parts := flag.String("parts", "kedify,gatewayapi", "the plugins to measure")
	flag.Parse()
	for name, path := range paths {
		if *path == "" {
			fmt.Fprintf(os.Stderr, "bench: -%s is needed; `make bench` gives it\n", name)
			return 2
		}
	}
	subjects, err := chosen(*parts, kedify(*paths["kedify"], *paths["idle"], *paths["throttled"]), gatewayAPI(*paths["gatewayapi"], *paths["idle"], *paths["rewriting"]))
	switch {
	case err != nil:
	case cluster.Inside():
		err = measure(ctx, subjects, *paths["crd"], *paths["rollout-crd"], *paths["route-crd"])
	default:
		err = gauge.Enter(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}
