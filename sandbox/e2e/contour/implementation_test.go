package contour

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/contour"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
)

// implementation is an add-on that implements the Gateway API, with its Gateway.
type implementation struct {
	addon string
	addon.Gateway
}

// behind is the implementation that the tests run behind: the add-on that GATEWAY names,
// which is Contour if it is not set.
var behind = func() implementation {
	name := os.Getenv("GATEWAY")
	if name == "" {
		name = contour.Name
	}
	all := slices.DeleteFunc(addons.All(), func(a addon.Addon) bool { return a.Gateway == nil })
	i := slices.Index(addon.Names(all), name)
	if i < 0 {
		panic("GATEWAY is " + name + ": must be one of " + strings.Join(addon.Names(all), ", "))
	}
	return implementation{name, *all[i].Gateway}
}()

// fill fills in a manifest: the host that requests ask for, and the Gateway.
func fill(manifest, host string) string {
	return strings.NewReplacer("HOST", host, "GATEWAY", behind.Name, "NAMESPACE_OF_IT", behind.Namespace, "CLASS", behind.Class).Replace(manifest)
}

// onlyContour skips a test behind another implementation, for a reason.
func onlyContour(t *testing.T, reason string) {
	t.Helper()
	if behind.addon != contour.Name {
		t.Skip(reason)
	}
}
