package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffictest"
)

// timedPause is a pause of the guide's sample that ends by itself, as kubectl
// kustomize prints it.
const timedPause = "pause:\n          duration: 30s"

// TestTrafficCanary runs the guide's sample under a steady load of requests: to weight
// 50, an abort, and all over again to the promotion and until the old pods are gone. No
// request fails or goes astray, and at each step the canary has the share that its
// weight asks for. The HTTPScaledObject carries these weights, and at the end has the
// annotations that it began with. The sample's timed pauses wait for a promotion here,
// however long it takes to measure a share; in TestTutorial they end by themselves.
func TestTrafficCanary(t *testing.T) {
	t.Parallel()
	traffictest.Both(t, func(t *testing.T, n *e2etest.Namespace, p traffictest.Proxy) {
		const name = "rollouts-demo"
		host := n.Name + ".test"
		sample := n.Kubectl("kustomize", e2etest.Repository(t, "examples", "canary-without-agent"))
		if timed := strings.Count(sample, timedPause); timed != 2 {
			t.Fatalf("the sample has %d timed pauses, want 2 of:\n%s\nin:\n%s", timed, timedPause, sample)
		}
		n.Apply(strings.NewReplacer(name+".example.com", host, timedPause, "pause: {}").Replace(sample))
		n.AwaitHealthy(name, e2etest.Image("blue"))
		p.Await(t, host, "/color")
		load := traffictest.StartLoad(t, p, host)
		load.RequireOnly("blue")
		before := n.HTTPScaledObject(name).GetAnnotations()
		record := n.Record(name)

		step := func(index int32, weight int) {
			t.Helper()
			n.AwaitPaused(name, index)
			n.RequireSplit(name, e2etest.App{Name: name}.Split(weight))
			p.AwaitSplit(t, name, weight)
			load.RequireShare("yellow", weight)
		}
		n.SetImage(name, e2etest.Image("yellow"))
		step(1, 20)
		n.Promote(name)
		step(3, 50)
		n.Abort(name)
		n.AwaitAborted(name)
		p.AwaitSplit(t, name, 0)
		load.RequireOnly("blue")

		n.Retry(name)
		step(1, 20)
		n.Promote(name)
		step(3, 50)
		n.Promote(name)
		step(5, 80)
		n.Promote(name)
		n.AwaitHealthy(name, e2etest.Image("yellow"))
		n.AwaitSplit(name, e2etest.NoSplit)
		p.AwaitSplit(t, name, 0)
		load.RequireOnly("yellow")
		e2etest.Eventually(t, e2etest.Patience, "the old pods are gone", func(context.Context) error {
			for _, pod := range traffictest.PodsOf(t, n, name) {
				if image := pod.Spec.Containers[0].Image; image != e2etest.Image("yellow") {
					return fmt.Errorf("%s runs %s", pod.Name, image)
				}
			}
			return nil
		})
		load.RequireOnly("yellow")
		load.Finish(nil, "blue", "yellow")

		at := e2etest.App{Name: name}.Split
		record.Require(e2etest.NoSplit, at(20), at(50), e2etest.NoSplit, at(20), at(50), at(80), at(100), e2etest.NoSplit)
		if diff := cmp.Diff(before, n.HTTPScaledObject(name).GetAnnotations()); diff != "" {
			t.Errorf("annotations before and after the canary (-before +after):\n%s", diff)
		}
	})
}
