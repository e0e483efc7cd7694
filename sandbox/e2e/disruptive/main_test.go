// Package disruptive tests faults of the whole cluster: permissions taken away, a
// controller that does not start, killed processes, a stopped API server. It has a
// sandbox of its own, and its tests run one after the other; each leaves the
// cluster as it was.
package disruptive

import (
	"os"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/interceptor"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/canarytest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// name is the name of the Rollout and of the HTTPScaledObject of each test.
const name = canarytest.Name

func TestMain(m *testing.M) { os.Exit(e2etest.RunTests(m, "e2e-disruptive", interceptor.Name)) }
