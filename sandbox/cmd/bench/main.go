// Command bench measures the kedify/http plugin over RPC against a real API
// server, beside a build of it whose calls do nothing and one with client-go's
// default rate limit. It prints figures and ratios and judges none: `make
// bench` builds the three and runs it.
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

// binaries are the paths of the three builds.
type binaries struct{ plugin, idle, throttled string }

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var b binaries
	flag.StringVar(&b.plugin, "plugin", "", "the plugin as released")
	flag.StringVar(&b.idle, "idle", "", "the build whose calls do nothing")
	flag.StringVar(&b.throttled, "throttled", "", "the build with client-go's default rate limit")
	crd := flag.String("crd", "", "the HTTPScaledObject CRD")
	rolloutCRD := flag.String("rollout-crd", "", "the Rollout CRD")
	flag.Parse()
	if b.plugin == "" || b.idle == "" || b.throttled == "" || *crd == "" || *rolloutCRD == "" {
		fmt.Fprintln(os.Stderr, "bench: -plugin, -idle, -throttled, -crd and -rollout-crd are needed; `make bench` gives them")
		return 2
	}
	var err error
	if cluster.Inside() {
		err = measure(ctx, b, *crd, *rolloutCRD)
	} else {
		err = gauge.Enter(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}
