// Package agent tests the agent, with KEDA, Contour and Argo Rollouts in the package's
// sandbox, all from their own manifests: from ScaledObject to HTTPScaledObject, and from an
// Ingress to kedify-proxy.
package agent

import (
	"os"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/agent"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/contour"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

func TestMain(m *testing.M) {
	os.Exit(e2etest.RunWaitingTests(m, "e2e-agent", agent.Name, contour.Name))
}
