package e2e

import (
	"slices"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

const twoPauses = `
- setWeight: 20
- pause: {}
- setWeight: 60
- pause: {}
`

// start applies an App, waits until it is healthy, and records its
// HTTPScaledObject.
func start(n *e2etest.Namespace, app e2etest.App) *e2etest.Recorder {
	n.Apply(app.Manifest())
	n.AwaitHealthy("app", e2etest.Image("blue"))
	return n.Record("app")
}

// pausedAt20 starts a canary of an App with twoPauses and waits for its first pause.
func pausedAt20(t *testing.T, app e2etest.App) (*e2etest.Namespace, *e2etest.Recorder) {
	t.Helper()
	n := e2etest.NewNamespace(t)
	record := start(n, app)
	n.SetImage("app", e2etest.Image("yellow"))
	n.AwaitPaused("app", 1)
	n.AwaitReconciled(e2etest.ControllerNamespace, "app")
	n.RequireSplit("app", app.Split(20))
	return n, record
}

func TestAbortAndRetry(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	app := e2etest.App{Steps: twoPauses}
	record := start(n, app)

	n.SetImage("app", e2etest.Image("yellow"))
	n.AwaitPaused("app", 1)
	n.RequireSplit("app", app.Split(20))
	n.Abort("app")
	n.AwaitAborted("app")
	n.AwaitSplit("app", e2etest.NoSplit)

	n.Retry("app")
	n.AwaitPaused("app", 1)
	n.RequireSplit("app", app.Split(20))
	n.Promote("app")
	n.AwaitPaused("app", 3)
	n.RequireSplit("app", app.Split(60))
	n.Abort("app")
	n.AwaitAborted("app")
	n.AwaitSplit("app", e2etest.NoSplit)

	record.Require(e2etest.NoSplit, app.Split(20), e2etest.NoSplit, app.Split(20), app.Split(60), e2etest.NoSplit)
}

// TestAbortWithDynamicStableScale aborts when most of the stable pods are gone: the
// canary's weight falls as the stable pods return, and never rises again.
func TestAbortWithDynamicStableScale(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	app := e2etest.App{
		Replicas: 4,
		Canary:   "dynamicStableScale: true",
		Steps: `
- setWeight: 25
- pause: {duration: 1s}
- setWeight: 75
- pause: {}
`}
	record := start(n, app)

	n.SetImage("app", e2etest.Image("yellow"))
	n.AwaitPaused("app", 3)
	n.AwaitSplit("app", app.Split(75))
	n.AwaitRollout("app", "stable scaled down to one", func(ro *v1alpha1.Rollout) error {
		return equal("replicas", ro.Status.Replicas, 4) // one stable, three canary
	})
	n.Abort("app")
	n.AwaitAborted("app")
	n.AwaitSplit("app", e2etest.NoSplit)

	record.RequireNothingElse()
	var weights []int
	for _, split := range record.Splits() {
		weights = append(weights, canaryWeight(t, app, split))
	}
	t.Logf("canary weights: %v", weights)
	top := slices.Index(weights, 75)
	if !slices.Equal(weights[:max(top, 0)], []int{0, 25}) {
		t.Fatalf("canary weights were %v, want 0, 25, 75, and then back", weights)
	}
	for i := top + 1; i < len(weights); i++ {
		if weights[i] >= weights[i-1] {
			t.Errorf("canary weights were %v: after the abort they must only go down", weights)
		}
	}
}
