package steps

import (
	"fmt"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// others starts the canaries of Rollouts that are released together, each paused before
// it waits for the others.
func others(t *testing.T, names ...string) *e2etest.Namespace {
	t.Helper()
	// Not a pause first: Argo Rollouts would skip the plugin steps of a canary that is
	// retried.
	steps := `
- setWeight: 0
- pause: {}
- plugin:
    name: kedify/step
    config:
      interval: 11s
      rollouts: {barrier: together, selector: {matchLabels: {team: a}}}`
	manifests := map[string]string{}
	for _, name := range names {
		manifests[name] = rollout(name, steps, "")
	}
	n := e2etest.NewNamespace(t)
	start(t, n, manifests)
	for _, name := range names {
		n.AwaitPaused(name, 1)
	}
	return n
}

// Rollouts wait for one another, and go on together.
func TestRolloutsMeet(t *testing.T) {
	t.Parallel()
	n := others(t, "app", "api")
	n.Promote("app")
	awaitStep(n, "app", 2, v1alpha1.StepPluginPhaseRunning, "api")
	n.AwaitEvent("Rollout", "app", "StepWaiting", "api")
	n.Promote("api")
	n.AwaitHealthy("app", e2etest.Image("yellow"))
	n.AwaitHealthy("api", e2etest.Image("yellow"))
}

// One of three fails: all roll back. They are retried one by one, and complete.
func TestRolloutsRollBackTogether(t *testing.T) {
	t.Parallel()
	names := []string{"app", "api", "web"}
	n := others(t, names...)
	n.Promote("app")
	n.Promote("api")
	awaitStep(n, "app", 2, v1alpha1.StepPluginPhaseRunning, "web")
	awaitStep(n, "api", 2, v1alpha1.StepPluginPhaseRunning, "web")
	n.Abort("web")
	for _, name := range names {
		n.AwaitAborted(name)
	}
	for i, name := range names {
		n.Retry(name)
		n.AwaitPaused(name, 1)
		n.Promote(name)
		if i < len(names)-1 {
			awaitStep(n, name, 2, v1alpha1.StepPluginPhaseRunning, names[i+1])
		}
	}
	for _, name := range names {
		n.AwaitRollout(name, "it is healthy with the new version", func(ro *v1alpha1.Rollout) error {
			if ro.Status.Phase != v1alpha1.RolloutPhaseHealthy || ro.Status.StableRS != ro.Status.CurrentPodHash {
				return fmt.Errorf("it is %s", ro.Status.Phase)
			}
			return nil
		})
	}
}
