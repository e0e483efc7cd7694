package contour

import (
	"context"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
)

// The controller of a Gateway stops in the middle of a canary. The next weight is not
// verified, so that the canary stays at its step, and after a minute an Event says so.
// When the controller runs again, the canary goes on by itself. When it stops another
// time, an abort takes all traffic back without it.
func TestStoppedGatewayHoldsTheStep(t *testing.T) {
	t.Parallel()
	steps := twoPauses + "- setWeight: 80\n- pause: {}\n"
	c := startCanary(t, e2etest.App{Steps: steps}, standInRoute(t))
	before := routeOf(t, c.Namespace, name)
	gateway := startStandIn(t, c.Namespace)
	c.SetImage(name, e2etest.Image("yellow"))
	c.AwaitPaused(name, 1)
	requireWeights(t, c.Namespace, name, "80/20")

	gateway.stop(t, c.Namespace)
	c.Promote(name)
	event := c.AwaitEvent("Rollout", name, "RouteNotReported", "HTTPRoute "+c.Name+"/app", "Gateway "+c.Name+"/stand-in", "see whether the controller of the Gateway runs")
	t.Log(event.Message)
	c.AwaitHeld(name, 2)
	c.awaitWeights(t, soon, "40/60")
	gateway.start()
	c.AwaitPaused(name, 3)

	gateway.stop(t, c.Namespace)
	c.Promote(name)
	c.AwaitHeld(name, 4)
	c.awaitWeights(t, soon, "20/80") // the weight before may have been unverified, too
	c.Abort(name)
	c.AwaitAborted(name)
	awaitRest(t, c.Namespace, before)
}

// With dynamicStableScale an abort may begin with the canary at the maximum weight and
// no pod of stable, which the controller scales up only if it is told that the weight is
// verified. So the abort does not wait for a Gateway whose controller has stopped.
func TestStoppedGatewayDoesNotHoldAnAbort(t *testing.T) {
	t.Parallel()
	app := e2etest.App{Replicas: 2, Canary: "dynamicStableScale: true", Steps: "- setWeight: 100\n- pause: {}\n"}
	c := startCanary(t, app, standInRoute(t))
	gateway := startStandIn(t, c.Namespace)
	c.SetImage(name, e2etest.Image("yellow"))
	c.AwaitPaused(name, 1)
	c.awaitStableReplicas(t, 0)
	requireWeights(t, c.Namespace, name, "0/100")

	gateway.stop(t, c.Namespace)
	// The abort begins with a generation of the route that nobody has reported on.
	c.Kubectl("patch", "httproute", name, "--type=json", `-p=[{"op":"add","path":"/spec/hostnames/-","value":"second.`+c.host+`"}]`)
	c.awaitWeights(t, soon, "0/100")
	c.Abort(name)
	c.AwaitAborted(name)
	awaitRoute(t, c.Namespace, name, e2etest.Patience, "at rest", checkRest)
}

// The Gateway's controller itself stops in the middle of a canary. Its Envoys go on with
// the last weight, the next is not verified, and an abort needs no controller. Once it is
// back, it takes all requests back to stable; the pods of the canary have to stay until
// then. The test does not run in parallel with others, which need the controller.
func TestControllerOfTheGatewayStops(t *testing.T) {
	c := startCanary(t, e2etest.App{Canary: "abortScaleDownDelaySeconds: 600", Steps: twoPauses}, routeManifest)
	c.awaitServed(t)
	before := routeOf(t, c.Namespace, name)
	c.SetImage(name, e2etest.Image("yellow"))
	c.AwaitPaused(name, 1)
	load := startLoad(t, c.proxy, c.host)
	load.AwaitShareWithin("yellow", 20, margin)

	scale := "kubectl -n " + behind.Namespace + " scale deploy/" + behind.Controller + " --replicas="
	t.Cleanup(func() {
		if _, err := e2etest.TryShell(context.Background(), scale+strconv.Itoa(behind.Replicas)); err != nil {
			t.Error(err)
		}
	})
	e2etest.Shell(t, scale+"0")
	c.AwaitReplicas(t, behind.Namespace, behind.Controller, 0)
	c.Promote(name)
	c.AwaitHeld(name, 2)
	c.awaitWeights(t, soon, "40/60")
	load.AwaitShareWithin("yellow", 20, margin)
	c.Abort(name)
	c.AwaitAborted(name)
	awaitRest(t, c.Namespace, before)

	// A controller that has just started may have Envoy remove clusters until it has read all
	// routes. Requests without a cluster are answered 503.
	back := time.Now()
	e2etest.Shell(t, scale+strconv.Itoa(behind.Replicas))
	awaitOnly(t, load, "blue")
	load.Finish(func(a traffic.Answer) bool {
		return a.Status == http.StatusServiceUnavailable && a.Received.After(back)
	}, "blue", "yellow")
}
