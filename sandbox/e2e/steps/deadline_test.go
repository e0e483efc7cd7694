package steps

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// A step that does not end is cancelled at its timeout, before the progress deadline, and
// aborts the canary. A step without a timeout has a minute less than the deadline.
func TestTimeout(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ timeout, want string }{
		"its own":           {"timeout: 30s", "timed out after 30s"},
		"from the deadline": {"", "timed out after 35s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOutside(t)
			n := startOne(t, o.step("build", tc.timeout), "progressDeadlineSeconds: 95")
			o.await(t, 1, "running")
			o.await(t, 1, "cancelled")
			ro := n.AwaitAborted("app")
			if s := stepStatus(ro, 0, v1alpha1.StepPluginOperationRun); s == nil || !e2etest.ContainsAll(s.Message, []string{tc.want, "the work was cancelled"}) {
				t.Errorf("step %+v", s)
			}
		})
	}
}

// The progress deadline passes during a step, because it is lowered: the Rollout is
// Degraded, and the step is not run any more. When the canary is aborted, the work of
// the step is cancelled.
func TestDeadlineDuringAStep(t *testing.T) {
	t.Parallel()
	// Argo Rollouts adds 5 s. The deadline has to pass before the second Run, which would be
	// late by then and fail the step.
	const interval = 30 * time.Second
	o := newOutside(t)
	n := startOne(t, strings.Replace(o.step("build", ""), "interval: 11s", "interval: "+interval.String(), 1), "")
	o.await(t, 1, "running")
	n.AwaitStep("app", 0, v1alpha1.StepPluginPhaseRunning)
	n.PatchRollout("app", `{"spec": {"progressDeadlineSeconds": 1}}`)
	ro := n.AwaitRollout("app", "its progress deadline has passed", func(ro *v1alpha1.Rollout) error {
		for _, c := range ro.Status.Conditions {
			if c.Type == v1alpha1.RolloutProgressing && c.Reason == "ProgressDeadlineExceeded" && ro.Status.Phase == v1alpha1.RolloutPhaseDegraded {
				return nil
			}
		}
		return errors.New("it has not")
	})
	if ro.Status.Abort {
		t.Fatalf("the canary is aborted: %s", ro.Status.Message)
	}
	executions, requests := stepStatus(ro, 0, v1alpha1.StepPluginOperationRun).Executions, o.requests()
	passed := time.Now()
	e2etest.Eventually(t, e2etest.Patience, "the time of the next Run is over", func(context.Context) error {
		if lasts := time.Since(passed); lasts < interval+10*time.Second {
			return fmt.Errorf("it is %s", lasts)
		}
		return nil
	})
	ro = n.Rollout("app")
	if now := stepStatus(ro, 0, v1alpha1.StepPluginOperationRun).Executions; now != executions || o.requests() != requests {
		t.Errorf("the step has run %d times, and %d before; the outside has %d requests more", now, executions, o.requests()-requests)
	}
	if o.all()[0].Status != "running" || ro.Status.Abort {
		t.Errorf("the run is %s, and the canary aborted: %t", o.all()[0].Status, ro.Status.Abort)
	}
	n.Abort("app")
	o.await(t, 1, "cancelled")
	n.AwaitAborted("app")
}
