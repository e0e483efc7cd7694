package e2e

import (
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// TestSetCanaryScale scales the canary independently of its weight: canary pods without
// a weight lead to no split.
func TestSetCanaryScale(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	app := e2etest.App{Replicas: 2, Steps: `
- setCanaryScale: {replicas: 2}
- pause: {}
- setWeight: 10
- pause: {}
- setCanaryScale: {matchTrafficWeight: true}
- setWeight: 50
- pause: {duration: 1s}
`}
	record := start(n, app)

	n.SetImage("app", e2etest.Image("yellow"))
	n.AwaitPaused("app", 1)
	n.AwaitRollout("app", "two canary pods without a weight", func(ro *v1alpha1.Rollout) error {
		return equal("updated replicas", ro.Status.UpdatedReplicas, 2)
	})
	n.RequireSplit("app", e2etest.NoSplit)
	n.Promote("app")
	n.AwaitPaused("app", 3)
	n.RequireSplit("app", app.Split(10))
	n.Promote("app")
	n.AwaitHealthy("app", e2etest.Image("yellow"))
	n.AwaitSplit("app", e2etest.NoSplit)
	record.Require(e2etest.NoSplit, app.Split(10), app.Split(50), app.Split(100), e2etest.NoSplit)
}

// TestMaxTrafficWeight splits in thousandths.
func TestMaxTrafficWeight(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	app := e2etest.App{
		TrafficRouting: "maxTrafficWeight: 1000",
		Steps: `
- setWeight: 5
- pause: {}
- setWeight: 125
- pause: {duration: 1s}
`}
	split := func(stable, canary int) e2etest.Split {
		return e2etest.Split{
			Text:  e2etest.SplitText(e2etest.Weight{Service: "app-stable", Weight: stable}, e2etest.Weight{Service: "app-canary", Weight: canary}),
			Owner: "app",
		}
	}
	record := start(n, app)

	n.SetImage("app", e2etest.Image("yellow"))
	n.AwaitPaused("app", 1)
	n.RequireSplit("app", split(995, 5))
	n.Promote("app")
	n.AwaitHealthy("app", e2etest.Image("yellow"))
	n.AwaitSplit("app", e2etest.NoSplit)
	record.Require(e2etest.NoSplit, split(995, 5), split(875, 125), split(0, 1000), e2etest.NoSplit)
}
