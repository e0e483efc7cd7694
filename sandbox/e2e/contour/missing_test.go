package contour

import (
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// A Rollout whose HTTPRoute does not exist starts all the same, since at weight 0 there
// is no traffic to take off. Above 0 an Event says what is missing; as soon as the
// route exists, the canary goes on. When the route is deleted again, the canary can be
// aborted.
func TestMissingRoute(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	route := fill(routeManifest, n.Name+".test")
	app := routed(e2etest.App{Steps: twoPauses})
	n.Apply(app.Services() + app.Rollout())
	n.AwaitHealthy(name, e2etest.Image("blue"))

	n.SetImage(name, e2etest.Image("yellow"))
	missing := "HTTPRoute " + n.Name + "/app not found: create it, or correct its name or namespace"
	n.AwaitEvent("Rollout", name, "TrafficRoutingError", missing)
	n.Apply(route)
	n.AwaitPaused(name, 1)
	requireWeights(t, n, name, "80/20")

	n.Delete(route)
	n.Promote(name)
	n.Abort(name)
	n.AwaitAborted(name)
	n.AwaitEvent("Rollout", name, "TrafficRoutingError", missing, "there is nothing to take traffic off")
}

// One of two routes is deleted in the middle of a canary: the other keeps its weight,
// the Rollout stays at its step, and an Event says so. When the route is back, the
// Rollout goes on, and both routes get the next weight.
func TestOneOfTwoRoutesGoes(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	route := fill(routeManifest, n.Name+".test")
	second := changed(t, fill(routeManifest, "second."+n.Name+".test"), "  name: app\n", "  name: second\n")
	app := routed(e2etest.App{Steps: twoPauses})
	app.Plugin = "httpRoutes: [{name: app}, {name: second}]"
	n.Apply(app.Services() + "---" + route + "---" + second + app.Rollout())
	n.AwaitHealthy(name, e2etest.Image("blue"))
	first, other := routeOf(t, n, "app"), routeOf(t, n, "second")

	n.SetImage(name, e2etest.Image("yellow"))
	n.AwaitPaused(name, 1)
	requireWeights(t, n, "app", "80/20")
	requireWeights(t, n, "second", "80/20")
	n.Delete(second)
	n.Promote(name)
	n.AwaitEvent("Rollout", name, "TrafficRoutingError", "HTTPRoute "+n.Name+"/second not found", "until this is corrected or the Rollout is aborted")
	n.AwaitHeld(name, 2)
	requireWeights(t, n, "app", "80/20")

	n.Apply(second)
	n.AwaitPaused(name, 3)
	requireWeights(t, n, "app", "40/60")
	requireWeights(t, n, "second", "40/60")
	n.Promote(name)
	n.AwaitHealthy(name, e2etest.Image("yellow"))
	awaitRest(t, n, first)
	awaitRest(t, n, other)
}
