// Package steps tests canaries with steps of the step plugin against the real controller:
// what each kind does, and what becomes of the work at each of the controller's turns. Its
// tests run at the same time, in a sandbox of the package's own.
package steps

import (
	"os"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/stepplugin"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/e2etest"
)

func TestMain(m *testing.M) {
	os.Exit(e2etest.RunWaitingTests(m, "e2e-steps", stepplugin.Name))
}
