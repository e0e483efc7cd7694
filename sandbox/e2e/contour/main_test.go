// Package contour tests a Rollout behind Contour, which runs in the package's sandbox
// from its own manifests: as an ingress controller and as a Gateway, and with canaries
// of the Gateway API router. With GATEWAY=envoy-gateway the tests that are about a
// Gateway run behind Envoy Gateway. Most of the tests run in parallel, but not those
// that change what the others share, such as the controller or its permissions.
package contour

import (
	"os"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/gatewayapiplugin"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/protocols"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

func TestMain(m *testing.M) {
	os.Exit(e2etest.RunWaitingTests(m, "e2e-"+behind.addon, behind.addon, gatewayapiplugin.Name, protocols.Name))
}
