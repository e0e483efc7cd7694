package steps

import (
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/guidetest"
)

// The commands of docs/steps.md show the progress of a step that runs and of one that
// has failed.
func TestCommandsThatShowHowAStepGoes(t *testing.T) {
	t.Parallel()
	shown := guidetest.StepsBetween(t, "docs/steps.md", "## See how a step goes\n", "The first command")
	if len(shown) != 1 {
		t.Fatalf("%d fences of commands, want 1", len(shown))
	}
	logs := guidetest.StepsBetween(t, "docs/steps-admin.md", "\nIts log lines are in", "\n### ")[0].Commands
	o := newOutside(t)
	n := startOne(t, o.step("build", "", "message: run {{ outputs.id }}"), "")
	fill := strings.NewReplacer("-n shop", "-n "+n.Name, "rollout/checkout", "rollout/app", "steps checkout", "steps app")
	require := func(commands string, want ...string) {
		t.Helper()
		if printed := e2etest.Shell(t, fill.Replace(commands)); !e2etest.ContainsAll(printed, want) {
			t.Errorf("%sprints\n%s\nwant %q", commands, printed, want)
		}
	}
	n.AwaitStep("app", 0, v1alpha1.StepPluginPhaseRunning, "run 1")
	n.AwaitEvent("Rollout", "app", "StepWaiting", "run 1")
	require(shown[0].Commands, "StepWaiting", "build: step 1: run 1", "Running", "cancels it", "run 1")
	o.end("failed")
	ro := n.AwaitAborted("app")
	const why = "poll.failureCondition is true"
	if !strings.Contains(ro.Status.Message, why) {
		t.Errorf("the Rollout's message is %q, want that of the step", ro.Status.Message)
	}
	require(shown[0].Commands, "Failed", why)
	require(logs, "kedify/step", "build: ")
}
