package steps

import (
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// Rollouts that are released together wait for one another. One of three fails: all roll
// back. They are retried one by one, and go on together.
func TestRolloutsRollBackTogether(t *testing.T) {
	t.Parallel()
	// Not a pause first: Argo Rollouts would skip the plugin steps of a canary that is
	// retried.
	const steps = `
- setWeight: 0
- pause: {}
- plugin:
    name: kedify/step
    config:
      interval: 11s
      rollouts: {barrier: together, selector: {matchLabels: {team: a}}}`
	names := []string{"app", "api", "web"}
	manifests := map[string]string{}
	for _, name := range names {
		manifests[name] = rollout(name, steps, "")
	}
	n := e2etest.NewNamespace(t)
	start(t, n, manifests)
	for _, name := range names {
		n.AwaitPaused(name, 1)
	}
	n.Promote("app")
	n.Promote("api")
	n.AwaitStep("app", 2, v1alpha1.StepPluginPhaseRunning, "web")
	n.AwaitStep("api", 2, v1alpha1.StepPluginPhaseRunning, "web")
	n.AwaitEvent("Rollout", "app", "StepWaiting", "web")
	n.Abort("web")
	for _, name := range names {
		n.AwaitAborted(name)
	}
	for i, name := range names {
		n.Retry(name)
		n.AwaitPaused(name, 1)
		n.Promote(name)
		if i < len(names)-1 {
			n.AwaitStep(name, 2, v1alpha1.StepPluginPhaseRunning, names[i+1])
		}
	}
	for _, name := range names {
		n.AwaitHealthy(name, e2etest.Image("yellow"))
	}
}
