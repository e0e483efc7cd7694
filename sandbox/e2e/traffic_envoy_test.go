package e2e

import (
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/e2e/internal/traffictest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/e2etest"
)

// TestTrafficEnvoyKilled kills one Envoy of two, and then both. What had not been
// begun with on the one is served by the other, and a new one serves the split as
// soon as it is ready, and each change of it.
func TestTrafficEnvoyKilled(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	p := traffictest.Envoy(t, n)
	host := n.Name + ".test"
	n.Apply(traffictest.Deployment("stable", "blue", 1) + traffictest.Deployment("canary", "yellow", 1) +
		traffictest.Object{Name: "app", Hosts: []string{host}, Service: "stable"}.Manifest())
	traffictest.AwaitEndpoints(t, n, "stable", 1)
	traffictest.AwaitEndpoints(t, n, "canary", 1)
	traffictest.Split(t, n, "app", e2etest.Weight{Service: "stable", Weight: 80}, e2etest.Weight{Service: "canary", Weight: 20})
	p.AwaitShares(t, "app", map[string]int{"stable": 80, "canary": 20})
	load := traffictest.StartParallelLoad(t, p, host)
	load.RequireShare("yellow", 20)

	pods := p.Pods(t)
	var killed traffictest.Outage
	killed.Add(func() { traffictest.Kill(t, pods[0]) })
	load.RequireShare("yellow", 20)
	p.AwaitShares(t, "app", map[string]int{"stable": 80, "canary": 20})
	load.RequireShare("yellow", 20)

	load.Finish(killed.Began, "blue", "yellow")

	traffictest.Kill(t, pods...)
	p.Await(t, host, "/color")
	load = traffictest.StartLoad(t, p, host)
	p.AwaitShares(t, "app", map[string]int{"stable": 80, "canary": 20})
	load.RequireShare("yellow", 20)
	traffictest.Split(t, n, "app", e2etest.Weight{Service: "stable", Weight: 30}, e2etest.Weight{Service: "canary", Weight: 70})
	p.AwaitShares(t, "app", map[string]int{"stable": 30, "canary": 70})
	load.RequireShare("yellow", 70)
	load.Finish(nil, "blue", "yellow")
}
