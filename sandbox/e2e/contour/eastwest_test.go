package contour

import (
	"net"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffictest"
)

// Callers inside the cluster do not go through the Gateway: calls to the stable Service
// never reach the canary's pods, whatever its weight, and calls to the canary Service
// reach no other pods. No call is lost.
func TestCallersInsideTheCluster(t *testing.T) {
	t.Parallel()
	c := startCanary(t, e2etest.App{Steps: twoPauses}, routeManifest)
	c.awaitServed(t)
	caller := func(service string) traffictest.Proxy {
		return traffictest.Proxy{Name: service, Address: net.JoinHostPort(service+"."+c.Name+".svc.cluster.local", "80")}
	}
	stable := traffictest.StartCallers(t, caller("app-stable"), "app-stable")
	stable.RequireOnly("blue")
	c.SetImage(name, e2etest.Image("yellow"))
	c.AwaitPaused(name, 1)
	throughGateway := startLoad(t, c.proxy, c.host)
	throughGateway.AwaitShareWithin("yellow", 20, margin)
	canary := traffictest.StartCallers(t, caller("app-canary"), "app-canary")
	canary.RequireOnly("yellow")
	c.Promote(name)
	c.AwaitPaused(name, 3)
	throughGateway.AwaitShareWithin("yellow", 60, margin)
	canary.RequireOnly("yellow")
	canary.Finish(nil, "yellow")
	c.Abort(name)
	c.AwaitAborted(name)
	awaitOnly(t, throughGateway, "blue")
	throughGateway.Finish(nil, "blue", "yellow")
	stable.RequireOnly("blue")
	stable.Finish(nil, "blue")
}
