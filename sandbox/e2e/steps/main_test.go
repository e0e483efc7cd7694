// Package steps tests canaries with steps of the step plugin against the real
// controller: what each kind of step does, and what becomes of its work when the
// controller aborts, promotes or retries the canary, or is killed. Most of its tests
// run in parallel, in a sandbox of the package's own.
package steps

import (
	"os"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/stepplugin"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

func TestMain(m *testing.M) {
	os.Exit(e2etest.RunWaitingTests(m, "e2e-steps", stepplugin.Name))
}
