package contour

import (
	"os"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/contour"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/envoygateway"
)

// implementation is an implementation of the Gateway API: the add-on that brings it,
// its Gateway, the Service of the Envoys that serve the Gateway, and the Deployment of
// its controller, with its replicas.
type implementation struct{ addon, namespace, class, gateway, service, controller, replicas string }

// behind is the implementation that the tests run behind: the one that GATEWAY names,
// which is Contour if it is not set.
var behind = func() implementation {
	switch name := os.Getenv("GATEWAY"); name {
	case "", contour.Name:
		return implementation{contour.Name, contour.Namespace, "example", contour.Gateway, contour.Service, "contour", "2"}
	case envoygateway.Name:
		return implementation{envoygateway.Name, envoygateway.Namespace, envoygateway.Class, envoygateway.Gateway, envoygateway.Gateway, envoygateway.Name, "1"}
	default:
		panic("GATEWAY is " + name + ": must be " + contour.Name + " or " + envoygateway.Name)
	}
}()

// fill fills in a manifest: the host that requests ask for, and the Gateway.
func fill(manifest, host string) string {
	return strings.NewReplacer("HOST", host, "GATEWAY", behind.gateway, "NAMESPACE_OF_IT", behind.namespace, "CLASS", behind.class).Replace(manifest)
}

// onlyContour skips a test behind another implementation, for a reason.
func onlyContour(t *testing.T, reason string) {
	t.Helper()
	if behind.addon != contour.Name {
		t.Skip(reason)
	}
}
