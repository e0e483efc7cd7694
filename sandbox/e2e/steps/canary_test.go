package steps

import (
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// rollout returns the manifest of a Rollout with these steps and without traffic routing,
// and further YAML under its spec.
func rollout(name, steps, spec string) string {
	return e2etest.App{Name: name, Labels: "team: a", NoTraffic: true, Steps: steps, Spec: spec}.Rollout()
}

// start brings Rollouts up in a namespace of the test's own, and starts a canary of each.
func start(t *testing.T, n *e2etest.Namespace, manifests map[string]string) {
	t.Helper()
	for _, manifest := range manifests {
		n.Apply(manifest)
	}
	for name := range manifests {
		n.AwaitHealthy(name, e2etest.Image("blue"))
	}
	for name := range manifests {
		n.SetImage(name, e2etest.Image("yellow"))
	}
}

// startOne is start for one Rollout, app.
func startOne(t *testing.T, steps, spec string) *e2etest.Namespace {
	t.Helper()
	n := e2etest.NewNamespace(t)
	start(t, n, map[string]string{"app": rollout("app", steps, spec)})
	return n
}

// stepStatus returns the status that the controller has stored for an operation of a
// step, or nil if there is none.
func stepStatus(ro *v1alpha1.Rollout, index int32, operation v1alpha1.StepPluginOperation) *v1alpha1.StepPluginStatus {
	for _, s := range ro.Status.Canary.StepPluginStatuses {
		if s.Index == index && s.Operation == operation {
			return &s
		}
	}
	return nil
}
