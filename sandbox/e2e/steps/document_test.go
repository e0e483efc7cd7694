package steps

import (
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/guidetest"
)

// The commands of docs/reference/steps.md show the progress of a step that runs and of one that
// has failed.
func TestCommandsThatShowHowAStepGoes(t *testing.T) {
	t.Parallel()
	o := newOutside(t)
	n := startOne(t, o.step("build", "", "message: run {{ outputs.id }}"), "")
	require := func(want ...string) {
		t.Helper()
		printed := guidetest.Run(t, "docs/reference/steps.md", []string{"show"}, "-n shop", "-n "+n.Name, "rollout/checkout", "rollout/app", "steps checkout", "steps app")
		if !e2etest.ContainsAll(printed, want) {
			t.Errorf("they print\n%s\nwant %q", printed, want)
		}
	}
	n.AwaitStep("app", 0, v1alpha1.StepPluginPhaseRunning, "run 1")
	n.AwaitEvent("Rollout", "app", "StepWaiting", "run 1")
	require("StepWaiting", "build: step 1: run 1", "Running", "cancels it", "run 1")
	o.end("failed")
	ro := n.AwaitAborted("app")
	const why = "poll.failureCondition is true"
	if !strings.Contains(ro.Status.Message, why) {
		t.Errorf("the Rollout's message is %q, want that of the step", ro.Status.Message)
	}
	require("Failed", why, "kedify/step", "build: ")
}
