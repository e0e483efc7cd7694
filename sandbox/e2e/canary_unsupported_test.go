package e2e

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

const headerStep = `
- setHeaderRoute:
    name: testers
    match:
      - headerName: X-Tester
        headerValue: {exact: "yes"}
`

// TestHeaderRouteIsRefused: a canary with a step that the plugin cannot carry
// out gets no traffic, wherever that step is, and an Event says why.
func TestHeaderRouteIsRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ steps, event string }{
		"later step": {"- setWeight: 20" + headerStep + "- pause: {}", "spec.strategy.canary.steps[1]"},
		"first step": {headerStep + "- setWeight: 20\n- pause: {}", "SetHeaderRoute for Rollout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := e2etest.NewNamespace(t)
			app := e2etest.App{TrafficRouting: "managedRoutes: [{name: testers}]", Steps: tc.steps}
			record := start(n, app)
			n.SetImage("app", e2etest.Image("yellow"))
			n.AwaitEvent("Rollout", "app", "TrafficRoutingError", tc.event, `route "testers"`, "not supported by kedify/http", "take the setHeaderRoute step out")
			n.RequireSplit("app", e2etest.NoSplit)

			// Take the step out, as the error advises.
			n.PatchRollout("app", `{"spec":{"strategy":{"canary":{"steps":[{"setWeight":20},{"pause":{}},{"setWeight":60},{"pause":{}}]}}}}`)
			n.AwaitPaused("app", 1)
			n.RequireSplit("app", app.Split(20))
			n.Promote("app", "--full")
			n.AwaitHealthy("app", e2etest.Image("yellow"))
			n.AwaitSplit("app", e2etest.NoSplit)
			record.Require(e2etest.NoSplit, app.Split(20), e2etest.NoSplit)
		})
	}
}

// TestRefusedStepHoldsUpNeitherAbortNorFullPromotion: a Rollout with a refused step can
// be aborted and fully promoted.
func TestRefusedStepHoldsUpNeitherAbortNorFullPromotion(t *testing.T) {
	t.Parallel()
	refused := func(t *testing.T) (*e2etest.Namespace, *e2etest.Recorder) {
		n := e2etest.NewNamespace(t)
		record := start(n, e2etest.App{TrafficRouting: "managedRoutes: [{name: testers}]", Steps: headerStep + "- setWeight: 20\n- pause: {}"})
		n.SetImage("app", e2etest.Image("yellow"))
		n.AwaitEvent("Rollout", "app", "TrafficRoutingError", "not supported by kedify/http")
		return n, record
	}
	t.Run("abort", func(t *testing.T) {
		t.Parallel()
		n, record := refused(t)
		n.Abort("app")
		n.AwaitAborted("app")
		record.Require(e2etest.NoSplit)
	})
	t.Run("full promotion", func(t *testing.T) {
		t.Parallel()
		n, record := refused(t)
		n.Promote("app", "--full")
		n.AwaitHealthy("app", e2etest.Image("yellow"))
		record.Require(e2etest.NoSplit)
	})
}

// TestHeaderRouteAddedMidCanary: the plugin lets the step pass with a warning, so that
// the controller can remove the split when the canary's pods are gone.
func TestHeaderRouteAddedMidCanary(t *testing.T) {
	t.Parallel()
	app := e2etest.App{TrafficRouting: "managedRoutes: [{name: testers}]", Steps: twoPauses}
	n, record := pausedAt20(t, app)

	n.PatchRollout("app", `{"spec":{"strategy":{"canary":{"steps":[{"setWeight":20},{"setHeaderRoute":{"name":"testers","match":[{"headerName":"X-Tester","headerValue":{"exact":"yes"}}]}},{"pause":{}}]}}}}`)
	n.AwaitEvent("Rollout", "app", "TrafficRoutingError", "not supported by kedify/http")
	ro := n.AwaitPaused("app", 2)
	n.RequireSplit("app", app.Split(20))

	// The quota leaves no room for another pod: the canary's pod is not replaced.
	n.Apply("apiVersion: v1\nkind: ResourceQuota\nmetadata:\n  name: full\nspec:\n  hard:\n    pods: \"1\"\n")
	selector := metav1.ListOptions{LabelSelector: "rollouts-pod-template-hash=" + ro.Status.CurrentPodHash}
	if err := n.Kube.CoreV1().Pods(n.Name).DeleteCollection(t.Context(), metav1.DeleteOptions{}, selector); err != nil {
		t.Fatal(err)
	}
	n.AwaitSplit("app", e2etest.NoSplit)
	record.Require(e2etest.NoSplit, app.Split(20), e2etest.NoSplit)
}
