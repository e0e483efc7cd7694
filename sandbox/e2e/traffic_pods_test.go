package e2e

import (
	"fmt"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffictest"
)

// TestTrafficPods removes pods of a split under load. No request fails when pods are
// deleted or scaled to zero. When pods are killed without warning, only requests under
// way at that moment may fail.
func TestTrafficPods(t *testing.T) {
	t.Parallel()
	traffictest.Both(t, func(t *testing.T, n *e2etest.Namespace, p traffictest.Proxy) {
		s := traffictest.StartAppBehind(t, n, 2, p)
		s.SetWeight(t, 40)
		load := traffictest.StartParallelLoad(t, p, s.Host)
		both := func(when string) {
			t.Helper()
			counts := traffic.Count(load.Next(200))
			if counts.Backends["blue"] == 0 || counts.Backends["yellow"] == 0 {
				t.Errorf("%s: %v; both should be there", when, counts.Backends)
			}
		}
		both("at the beginning")

		// Deleted one at a time, and then all.
		for _, pod := range traffictest.PodsOf(t, n, "canary") {
			n.Kubectl("delete", "pod", pod.Name)
			traffictest.AwaitEndpoints(t, n, "canary", 2)
			both("after a pod of the canary was deleted")
		}
		n.Kubectl("delete", "pod", "-l", "app=canary")
		traffictest.AwaitEndpoints(t, n, "canary", 2)
		both("after all pods of the canary were deleted")

		// Scaled to none, and back.
		n.Kubectl("scale", "deployment", "stable", "--replicas=0")
		traffictest.AwaitEndpoints(t, n, "stable", 0)
		n.Kubectl("wait", "--for=delete", "pod", "-l", "app=stable", "--timeout="+fmt.Sprint(e2etest.Patience))
		load.RequireOnly("yellow")
		n.Kubectl("scale", "deployment", "stable", "--replicas=2")
		traffictest.AwaitEndpoints(t, n, "stable", 2)
		load.AwaitBoth("blue", "yellow")

		// Killed: one, and then all.
		pods := traffictest.PodsOf(t, n, "canary")
		var killed traffictest.Outage
		killed.Add(func() { traffictest.Kill(t, pods[0]) })
		both("after a pod of the canary was killed")
		traffictest.AwaitEndpoints(t, n, "canary", 2)
		killed.Add(func() { traffictest.Kill(t, pods...) })
		load.Next(100)
		traffictest.AwaitEndpoints(t, n, "canary", 2)
		load.AwaitBoth("blue", "yellow")
		load.Finish(killed.MayFail, "blue", "yellow")
	})
}
