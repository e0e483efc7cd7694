// Package contour tests a Rollout behind Contour, which runs in the package's sandbox
// from its own manifests: as an ingress controller and as a Gateway, and with canaries
// of the Gateway API router. Most of its tests run in parallel, but not those that
// change what the others share, such as the controller or its permissions.
package contour

import (
	"os"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/contour"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/gatewayapiplugin"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/protocols"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/e2etest"
)

func TestMain(m *testing.M) {
	os.Exit(e2etest.RunWaitingTests(m, "e2e-contour", contour.Name, gatewayapiplugin.Name, protocols.Name))
}
