package proxies

import (
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/interceptor/interceptortest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffictest"
)

// TestTrafficInterceptorsKilled kills one interceptor of two: the other serves, and
// requests that were not under way at the killed one go on. Then it kills both: Envoy
// serves as before, and no request fails. When the interceptors are back, all is as
// before.
func TestTrafficInterceptorsKilled(t *testing.T) {
	s := traffictest.StartApp(t)
	interceptors := interceptortest.Pods(t)
	throughEnvoy := traffictest.StartLoad(t, s.Envoy, s.Host)
	load := traffictest.StartParallelLoad(t, s.Embedded, s.Host)
	load.AwaitBoth("blue", "yellow")

	var killed traffictest.Outage
	killed.Add(func() {
		traffictest.Kill(t, interceptors[0])
		load.AwaitBoth("blue", "yellow")
		throughEnvoy.RequireShare("yellow", 20)
		traffictest.AwaitRestart(t, interceptors[0])
	})
	s.SetWeight(t, 60)
	load.AwaitBoth("blue", "yellow")
	// A killed interceptor still gets connections until the node notices its end.
	// Started again, it holds requests until it has read its routes.
	load.Finish(killed.MayFail, "blue", "yellow")
	throughEnvoy.RequireShare("yellow", 60)

	interceptors = interceptortest.Pods(t)
	traffictest.Kill(t, interceptors...)
	throughEnvoy.RequireShare("yellow", 60)
	traffictest.AwaitRestart(t, interceptors...)
	s.SetWeight(t, 30)
	throughEnvoy.RequireShare("yellow", 30)
	throughEnvoy.Finish(nil, "blue", "yellow")

	s.Embedded.Await(t, s.Host, "/color")
	load = traffictest.StartLoad(t, s.Embedded, s.Host)
	load.RequireShare("yellow", 30)
	load.Finish(nil, "blue", "yellow")
}
