// Package e2e tests the plugin from end to end: in a sandbox, driven by the
// real Argo Rollouts controller, which has downloaded it as a user's would.
//
// The whole package shares one sandbox, and its tests run at the same time, each
// in a namespace of its own. Those that disturb the whole cluster are in
// e2e/disruptive, those that install and configure the plugin in e2e/install, those
// that disturb the proxies of all in e2e/proxies.
package e2e

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/gatewayapi"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/interceptor"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/e2etest"
)

// atOnce is how many tests run at the same time unless -parallel says
// otherwise: they mostly wait, so more than there are CPUs.
const atOnce = "8"

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", atOnce); err != nil {
			fmt.Fprintln(os.Stderr, "e2e:", err)
			return 2
		}
	}
	return e2etest.RunTests(m, "e2e", interceptor.Name, gatewayapi.Name)
}
