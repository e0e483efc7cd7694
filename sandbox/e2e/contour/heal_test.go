package contour

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// soon is far longer than a repair takes, and far shorter than the 15 minutes after
// which the controller looks at a paused Rollout by itself.
const soon = 20 * time.Second

// In the middle of a pause the route's manifest is applied again, as self-heal of a
// GitOps tool does, then it replaces the whole route, without label and annotation, and
// then only the label is removed. Each time the router soon repairs the route, an Event
// names the other writer if the API server knows it, and in the end the route is as in
// the manifest.
func TestRouteAppliedAgainMidCanary(t *testing.T) {
	t.Parallel()
	c := startCanary(t, e2etest.App{Steps: twoPauses}, routeManifest)
	c.awaitServed(t)
	before := routeOf(t, c.Namespace, name)
	c.SetImage(name, e2etest.Image("yellow"))
	c.AwaitPaused(name, 1)
	c.AwaitReconciled(e2etest.ControllerNamespace, name)
	record := recordWeights(t, c.Namespace, name)

	c.Apply(c.route)
	begun := time.Now()
	c.awaitWeights(t, soon, "80/20")
	t.Logf("put back %s after the route was applied", time.Since(begun).Round(time.Millisecond))
	c.AwaitEvent("Rollout", name, "RouteRestored", "field manager e2e (", "has changed HTTPRoute "+c.Name+"/app", "stable 80, canary 20", "abort the Rollout")

	path := filepath.Join(t.TempDir(), "route.yaml")
	if err := os.WriteFile(path, []byte(c.route), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Replace(path)
	begun = time.Now()
	c.awaitWeights(t, soon, "80/20")
	t.Logf("put back %s after the route was replaced", time.Since(begun).Round(time.Millisecond))
	c.AwaitEvent("Rollout", name, "RouteRestored", "field manager kubectl-replace (")
	c.Kubectl("label", "httproute", name, inProgressLabel+"-")
	begun = time.Now()
	c.awaitWeights(t, soon, "80/20")
	t.Logf("put back %s after the label was removed", time.Since(begun).Round(time.Millisecond))
	c.AwaitEvent("Rollout", name, "RouteRestored", "something that the route's metadata.managedFields do not name has changed HTTPRoute")
	load := startLoad(t, c.proxy, c.host)
	load.AwaitShareWithin("yellow", 20, margin)

	c.Promote(name)
	c.AwaitPaused(name, 3)
	requireWeights(t, c.Namespace, name, "40/60")
	c.Promote(name)
	c.AwaitHealthy(name, e2etest.Image("yellow"))
	awaitRest(t, c.Namespace, before)
	load.Finish(nil, "blue", "yellow")
	record.requireWeights("80/20", "100/0", "80/20", "100/0", "80/20", "40/60", "0/100", "100/0")
}

// At rest the router leaves the route to its user: weights that are applied then stay,
// and the next canary ends with them.
func TestRouteChangedAtRest(t *testing.T) {
	t.Parallel()
	c := startCanary(t, e2etest.App{Steps: twoPauses}, routeManifest)
	c.Apply(changed(t, c.route, "weight: 100", "weight: 1"))
	before := routeOf(t, c.Namespace, name)
	c.Reconcile(name)
	c.SetImage(name, e2etest.Image("yellow"))
	c.AwaitPaused(name, 1)
	requireWeights(t, c.Namespace, name, "80/20")
	c.Abort(name)
	c.AwaitAborted(name)
	awaitRest(t, c.Namespace, before)
	if got := weightsOf(routeOf(t, c.Namespace, name)); got != "1/0" {
		t.Errorf("the weights are %s, want 1/0", got)
	}
}

// awaitWeights waits until the route has these weights and says that a canary is in
// progress.
func (c canary) awaitWeights(t *testing.T, within time.Duration, want string) {
	t.Helper()
	awaitRoute(t, c.Namespace, name, within, "weights "+want, func(route *unstructured.Unstructured) error { return checkWeights(route, want) })
}
