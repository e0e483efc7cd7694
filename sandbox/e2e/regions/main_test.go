// Package regions tests canaries that wait for Rollouts of another cluster, with the real
// controllers and the real API servers of both. Most of its tests run in parallel, in a
// sandbox of the package's own.
package regions

import (
	"os"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/region"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

func TestMain(m *testing.M) {
	os.Exit(e2etest.RunWaitingTests(m, "e2e-regions", region.Name))
}
