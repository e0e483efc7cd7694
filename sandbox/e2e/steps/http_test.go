package steps

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

const pause = "\n- pause: {}"

// A step starts a run outside, waits for its end, and hands outputs on to the next.
func TestHTTPStep(t *testing.T) {
	t.Parallel()
	o := newOutside(t)
	n := startOne(t, o.step("build", "")+fmt.Sprintf(`
- plugin:
    name: kedify/step
    config:
      id: told
      http:
        request:
          url: %s/runs
          json: {about: '{{ steps.build.outputs.url }}'}`, o.URL), "")
	o.await(t, 1, "running")
	n.AwaitEvent("Rollout", "app", "StepWaiting", "build: step 1: ")
	// Argo Rollouts turns an interval of at most 10 s into 30 s.
	s := stepStatus(n.AwaitStep("app", 0, v1alpha1.StepPluginPhaseRunning), 0, v1alpha1.StepPluginOperationRun)
	if s.Backoff != "11s" {
		t.Errorf("the next Run is in %s, want 11s", s.Backoff)
	}
	if body := o.all()[0].Body; body["image"] != e2etest.Image("yellow") || body["team"] != "a" {
		t.Errorf("the run was started with %v", body)
	}
	o.end("passed")
	n.AwaitHealthy("app", e2etest.Image("yellow"))
	all := o.all()
	if len(all) != 2 || all[1].Body["about"] != all[0].URL {
		t.Errorf("runs %+v, want a second one about the first", all)
	}
	if all[0].Key == "" || all[1].Key == "" || all[0].Key == all[1].Key {
		t.Errorf("keys %q and %q, want two", all[0].Key, all[1].Key)
	}
}

// A run that fails aborts the canary, with the words of the condition.
func TestHTTPStepFails(t *testing.T) {
	t.Parallel()
	o := newOutside(t)
	n := startOne(t, o.step("build", ""), "")
	o.await(t, 1, "running")
	o.end("failed")
	ro := n.AwaitAborted("app")
	if s := stepStatus(ro, 0, v1alpha1.StepPluginOperationRun); s == nil || s.Phase != v1alpha1.StepPluginPhaseFailed {
		t.Errorf("step %+v", s)
	}
	if all := o.all(); len(all) != 1 || all[0].Status != "failed" {
		t.Errorf("runs %+v", all)
	}
}

// An abort cancels the run of a step that is running. The canary that is retried has a run
// of its own.
func TestAbortAndRetry(t *testing.T) {
	t.Parallel()
	o := newOutside(t)
	n := startOne(t, o.step("build", ""), "")
	o.await(t, 1, "running")
	n.AwaitStep("app", 0, v1alpha1.StepPluginPhaseRunning)
	n.Abort("app")
	o.await(t, 1, "cancelled")
	n.AwaitAborted("app")
	n.Retry("app")
	o.await(t, 2, "running")
	o.end("passed")
	n.AwaitHealthy("app", e2etest.Image("yellow"))
	if all := o.all(); all[0].Key == all[1].Key {
		t.Errorf("both runs have key %s", all[0].Key)
	}
}

// An abort cancels the run of a step even if all polls of the run fail.
func TestAbortWhilePollsFail(t *testing.T) {
	t.Parallel()
	o := newOutside(t)
	o.failPolls = true
	n := startOne(t, o.step("build", ""), "")
	o.await(t, 1, "running")
	n.AwaitStep("app", 0, v1alpha1.StepPluginPhaseRunning, "503")
	n.AwaitEvent("Rollout", "app", "StepRetried", "503")
	n.Abort("app")
	o.await(t, 1, "cancelled")
	n.AwaitAborted("app")
}

// An abort after a step has succeeded undoes the work of the step.
func TestAbortAfterSuccess(t *testing.T) {
	t.Parallel()
	o := newOutside(t)
	n := startOne(t, o.step("build", "")+pause, "")
	o.await(t, 1, "running")
	o.end("passed")
	n.AwaitPaused("app", 1)
	n.Abort("app")
	o.await(t, 1, "undone")
	n.AwaitAborted("app")
}

// A full promotion cancels the run of a step that is running, and goes on.
func TestPromoteFull(t *testing.T) {
	t.Parallel()
	o := newOutside(t)
	n := startOne(t, o.step("build", "")+pause, "")
	o.await(t, 1, "running")
	n.AwaitStep("app", 0, v1alpha1.StepPluginPhaseRunning)
	n.Promote("app", "--full")
	n.AwaitHealthy("app", e2etest.Image("yellow"))
	o.await(t, 1, "cancelled")
}

// A new revision in the middle of a step has a run of its own.
func TestNewRevisionDuringAStep(t *testing.T) {
	t.Parallel()
	o := newOutside(t)
	n := startOne(t, o.step("build", ""), "")
	o.await(t, 1, "running")
	n.AwaitStep("app", 0, v1alpha1.StepPluginPhaseRunning)
	n.SetImage("app", e2etest.Image("green"))
	o.await(t, 2, "running")
	o.end("passed")
	n.AwaitHealthy("app", e2etest.Image("green"))
	all := o.all()
	if all[0].Key == all[1].Key || all[1].Body["image"] != e2etest.Image("green") {
		t.Errorf("runs %+v", all)
	}
}

// A pause of the Rollout that is longer than the step's timeout does not fail the step.
func TestPausedForLongerThanTheTimeout(t *testing.T) {
	t.Parallel()
	const timeout = 40 * time.Second
	o := newOutside(t)
	n := startOne(t, o.step("build", "timeout: "+timeout.String()), "")
	o.await(t, 1, "running")
	n.AwaitStep("app", 0, v1alpha1.StepPluginPhaseRunning)
	n.PatchRollout("app", `{"spec": {"paused": true}}`)
	n.AwaitRollout("app", "it is paused", func(ro *v1alpha1.Rollout) error {
		if ro.Status.Phase != v1alpha1.RolloutPhasePaused {
			return fmt.Errorf("it is %s", ro.Status.Phase)
		}
		return nil
	})
	paused := time.Now()
	e2etest.Eventually(t, e2etest.Patience, "the pause lasts longer than the timeout", func(context.Context) error {
		if lasts := time.Since(paused); lasts < timeout {
			return fmt.Errorf("it lasts %s", lasts)
		}
		return nil
	})
	n.PatchRollout("app", `{"spec": {"paused": false}}`)
	before := stepStatus(n.Rollout("app"), 0, v1alpha1.StepPluginOperationRun).Executions
	n.AwaitRollout("app", "the step is asked after again, and runs", func(ro *v1alpha1.Rollout) error {
		s := stepStatus(ro, 0, v1alpha1.StepPluginOperationRun)
		if ro.Status.Abort || s.Executions == before || s.Phase != v1alpha1.StepPluginPhaseRunning {
			return fmt.Errorf("step %+v", s)
		}
		return nil
	})
	o.end("passed")
	n.AwaitHealthy("app", e2etest.Image("yellow"))
}

// An error in a registration or a configuration aborts the canary with a message, and
// the controller goes on.
func TestWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ step, want string }{
		"unknown-kind": {"- plugin: {name: sandbox/unknown-kind}", `kind "htp" is not known`},
		"unknown-key":  {"- plugin: {name: kedify/step, config: {http: {requst: {url: http://10.244.0.1/}}}}", "request"},
		"host":         {"- plugin: {name: kedify/step, config: {http: {request: {url: http://elsewhere.example.com/}}, timeout: 20s}}", "elsewhere.example.com"},
		"loopback":     {"- plugin: {name: kedify/step, config: {http: {request: {url: http://127.0.0.1:8080/}}, timeout: 20s}}", "127.0.0.1"},
		"timeout":      {"- plugin: {name: kedify/step, config: {http: {request: {url: http://10.244.0.1/}}, timeout: 10m}}", "progressDeadlineSeconds"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := startOne(t, tc.step, "")
			ro := n.AwaitAborted("app")
			if s := stepStatus(ro, 0, v1alpha1.StepPluginOperationRun); s == nil || !e2etest.ContainsAll(s.Message, []string{tc.want}) {
				t.Errorf("step %+v, want a message with %q", s, tc.want)
			}
		})
	}
}

// A step of a disabled registration is skipped.
func TestDisabled(t *testing.T) {
	t.Parallel()
	n := startOne(t, "- plugin: {name: sandbox/disabled, config: {nonsense: true}}", "")
	n.AwaitHealthy("app", e2etest.Image("yellow"))
}
