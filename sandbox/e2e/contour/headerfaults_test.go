package contour

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// A header route at weight 0 has a match that the Gateway does not accept. The step is
// not held, since nobody may follow the route at weight 0, but an Event says who refuses
// the route and why.
func TestRefusedHeaderRouteAtWeight0(t *testing.T) {
	t.Parallel()
	steps := `
- setCanaryScale: {replicas: 1}
- setHeaderRoute:
    name: beta
    match: [{headerName: X-Beta, headerValue: {regex: "("}}]
- pause: {}
`
	c := startCanary(t, e2etest.App{Steps: steps, TrafficRouting: "managedRoutes: [{name: beta}]"}, routeManifest)
	c.awaitServed(t)
	before := routeOf(t, c.Namespace, name)
	c.SetImage(name, e2etest.Image("yellow"))
	c.AwaitPaused(name, 2)
	requireWeights(t, c.Namespace, name, "100/0 1")
	awaitRoute(t, c.Namespace, name, e2etest.Patience, "refused by the Gateway", refusedFor("UnsupportedValue"))
	event := c.AwaitEvent("Rollout", name, "RouteRefused", "HTTPRoute "+c.Name+"/app", "Gateway "+behind.Namespace+"/"+behind.Name)
	t.Log(event.Message)
	c.Abort(name)
	c.AwaitAborted(name)
	awaitRest(t, c.Namespace, before)
}

// The only pod of a canary with a header route is deleted, and replaced. Until the new
// one is available, nothing goes to the canary: Argo Rollouts removes the header route and
// sets weight 0, and an Event says so. Then the weight and the header route come back,
// though the step that set the header route has passed.
func TestHeaderRouteOfACanaryWithoutPods(t *testing.T) {
	t.Parallel()
	steps := `
- setWeight: 20
- setHeaderRoute:
    name: beta
    match: [{headerName: X-Beta, headerValue: {exact: "yes"}}]
- pause: {}
`
	c := startCanary(t, e2etest.App{Steps: steps, TrafficRouting: "managedRoutes: [{name: beta}]"}, routeManifest)
	c.awaitServed(t)
	before := routeOf(t, c.Namespace, name)
	c.SetImage(name, e2etest.Image("yellow"))
	c.AwaitPaused(name, 2)
	c.awaitOnly(t, "X-Beta", "yes", "yellow")
	record := recordWeights(t, c.Namespace, name)

	pods := "rollouts-pod-template-hash=" + c.Rollout(name).Status.CurrentPodHash
	err := c.Kube.CoreV1().Pods(c.Name).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: pods})
	if err != nil {
		t.Fatal(err)
	}
	record.requireWeights("80/20 1", "80/20", "100/0", "80/20 1")
	event := c.AwaitEvent("Rollout", name, "", "has removed the header and mirror routes", "no pod of the canary is available")
	t.Log(event.Message)
	requireWeights(t, c.Namespace, name, "80/20 1")
	c.awaitOnly(t, "X-Beta", "yes", "yellow")
	c.Promote(name)
	c.AwaitHealthy(name, e2etest.Image("yellow"))
	awaitRest(t, c.Namespace, before)
}
