package disruptive

import (
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/e2e/internal/traffictest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/e2etest"
)

// split is a split of 80 and 20 under a load through each proxy.
type split struct {
	*e2etest.Namespace
	host            string
	embedded, envoy traffictest.Proxy
}

func startSplit(t *testing.T) split {
	t.Helper()
	n := e2etest.NewNamespace(t)
	s := split{Namespace: n, host: n.Name + ".test", embedded: traffictest.Embedded(t, n), envoy: traffictest.Envoy(t, n)}
	n.Apply(traffictest.Deployment("stable", "blue", 1) + traffictest.Deployment("canary", "yellow", 1) +
		traffictest.Object{Name: "app", Hosts: []string{s.host}, Service: "stable"}.Manifest())
	traffictest.AwaitEndpoints(t, n, "stable", 1)
	traffictest.AwaitEndpoints(t, n, "canary", 1)
	s.set(t, 20)
	return s
}

// set changes the canary's weight, and waits until both proxies have it.
func (s split) set(t *testing.T, canary int) {
	t.Helper()
	traffictest.Split(t, s.Namespace, "app",
		e2etest.Weight{Service: "stable", Weight: 100 - canary}, e2etest.Weight{Service: "canary", Weight: canary})
	for _, p := range []traffictest.Proxy{s.embedded, s.envoy} {
		p.AwaitShares(t, "app", map[string]int{"stable": 100 - canary, "canary": canary})
	}
}

// TestTrafficInterceptorsKilled kills one interceptor of two: the other serves,
// and what was not under way there goes on. Then both: Envoy serves as before,
// without one request that fails. When they are back, so is everything.
func TestTrafficInterceptorsKilled(t *testing.T) {
	s := startSplit(t)
	interceptors := e2etest.Interceptor(t)
	throughEnvoy := traffictest.StartLoad(t, s.envoy, s.host)
	load := traffictest.StartParallelLoad(t, s.embedded, s.host)
	load.AwaitBoth("blue", "yellow")

	var killed traffictest.Outage
	killed.Add(func() { traffictest.Kill(t, interceptors[0]) })
	load.AwaitBoth("blue", "yellow")
	throughEnvoy.RequireShare("yellow", 20)
	e2etest.Interceptor(t) // both, again
	s.set(t, 60)
	load.AwaitBoth("blue", "yellow")
	load.Finish(killed.Began, "blue", "yellow")
	throughEnvoy.RequireShare("yellow", 60)

	interceptors = e2etest.Interceptor(t)
	traffictest.Kill(t, interceptors...)
	throughEnvoy.RequireShare("yellow", 60)
	e2etest.Interceptor(t)
	s.set(t, 30)
	throughEnvoy.RequireShare("yellow", 30)
	throughEnvoy.Finish(nil, "blue", "yellow")

	s.embedded.Await(t, s.host, "/color")
	load = traffictest.StartLoad(t, s.embedded, s.host)
	load.RequireShare("yellow", 30)
	load.Finish(nil, "blue", "yellow")
}
