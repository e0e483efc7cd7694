package contour

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// A Rollout has a header route on two HTTPRoutes, and then names only one of them. The
// other refuses every write. That is an Event, and nothing else: the canary can be
// aborted, and promoted. Once the other allows writes, it goes back to what its user had.
func TestUnnamedRouteRefusesWrites(t *testing.T) {
	t.Parallel()
	const steps = `
- setWeight: 20
- setHeaderRoute:
    name: beta
    match: [{headerName: X-Beta, headerValue: {exact: "yes"}}]
- pause: {}
`
	for title, end := range map[string]func(canary){
		"abort": func(c canary) {
			c.Abort(name)
			c.AwaitAborted(name)
		},
		"promotion": func(c canary) {
			c.Promote(name)
			c.AwaitHealthy(name, e2etest.Image("yellow"))
		},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			n := e2etest.NewNamespace(t)
			c := canary{Namespace: n, host: n.Name + ".test"}
			second := changed(t, fill(routeManifest, "second."+c.host), "  name: app\n", "  name: second\n")
			app := routed(e2etest.App{Steps: steps, TrafficRouting: "managedRoutes: [{name: beta}]"})
			app.Plugin = "httpRoutes: [{name: app, useHeaderRoutes: true}, {name: second, useHeaderRoutes: true}]"
			n.Apply(app.Services() + "---" + fill(routeManifest, c.host) + "---" + second + app.Rollout())
			n.AwaitHealthy(name, e2etest.Image("blue"))
			named, other := routeOf(t, n, "app"), routeOf(t, n, "second")
			n.SetImage(name, e2etest.Image("yellow"))
			n.AwaitPaused(name, 2)
			requireWeights(t, n, "app", "80/20 1")
			requireWeights(t, n, "second", "80/20 1")

			policy := refuse(t, n, `object.metadata.name != "second"`, "second", `[{"op":"add","path":"/metadata/labels/probe","value":"yes"}]`)
			n.PatchRollout(name, `{"spec":{"strategy":{"canary":{"trafficRouting":{"plugins":{"`+pluginName+`":{"httpRoutes":[{"name":"app","useHeaderRoutes":true}]}}}}}}}`)
			n.AwaitEvent("Rollout", name, "TrafficRoutingError", "HTTPRoute "+n.Name+"/second", policyMessage)
			requireWeights(t, n, "app", "80/20 1")
			end(c)
			awaitRest(t, n, named)
			requireWeights(t, n, "second", "80/20 1")

			policy.lift(t)
			awaitRest(t, n, other)
		})
	}
}

// In the middle of a canary somebody applies a copy of the live route, with the router's
// annotation and label, in a namespace of another tenant. The router never writes it.
func TestCopyOfALiveRoute(t *testing.T) {
	t.Parallel()
	c := startCanary(t, e2etest.App{Steps: twoPauses}, routeManifest)
	before := routeOf(t, c.Namespace, name)
	c.SetImage(name, e2etest.Image("yellow"))
	c.AwaitPaused(name, 1)
	requireWeights(t, c.Namespace, name, "80/20")

	tenant := e2etest.NewNamespace(t)
	applied := applyCopy(t, routeOf(t, c.Namespace, name), tenant)
	c.Promote(name)
	c.AwaitPaused(name, 3)
	c.Abort(name)
	c.AwaitAborted(name)
	awaitRest(t, c.Namespace, before)
	// The look for routes of a Rollout that is gone comes to both routes.
	c.Apply(c.route)
	c.SetImage(name, e2etest.Image("blue"))
	c.AwaitHealthy(name, e2etest.Image("blue"))
	c.SetImage(name, e2etest.Image("yellow"))
	c.AwaitPaused(name, 1)
	c.Kubectl("delete", "rollout", name, "--wait=true")
	awaitRest(t, c.Namespace, before)
	awaitRest(t, tenant, applied)
	if writes := tenant.ControllerWrites(name); len(writes) != 0 {
		t.Errorf("the router has written the copy by %q", writes)
	}
}

// applyCopy applies a copy of a live route in another namespace, for another host.
func applyCopy(t *testing.T, live *unstructured.Unstructured, tenant *e2etest.Namespace) *unstructured.Unstructured {
	t.Helper()
	route := &unstructured.Unstructured{Object: map[string]any{"apiVersion": live.GetAPIVersion(), "kind": live.GetKind(), "spec": live.Object["spec"]}}
	route.SetName(live.GetName())
	route.SetLabels(live.GetLabels())
	route.SetAnnotations(live.GetAnnotations())
	if err := unstructured.SetNestedStringSlice(route.Object, []string{tenant.Name + ".test"}, "spec", "hostnames"); err != nil {
		t.Fatal(err)
	}
	text, err := route.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	tenant.Apply(string(text))
	return routeOf(t, tenant, live.GetName())
}
