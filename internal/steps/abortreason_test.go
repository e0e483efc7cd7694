package steps

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
)

// aborted marks a Rollout as the controller does when it stores an abort.
func aborted(ro *v1alpha1.Rollout, message string) {
	ro.Status.Abort = true
	ro.Status.Conditions[0].Reason, ro.Status.Conditions[0].Message = "RolloutAborted", message
}

// What a Rollout says of its abort when the controller calls Abort.
func TestWhyACanaryWasAborted(t *testing.T) {
	run := func(name string) *v1alpha1.RolloutAnalysisRunStatus {
		return &v1alpha1.RolloutAnalysisRunStatus{Name: name, Status: v1alpha1.AnalysisPhaseRunning}
	}
	for name, test := range map[string]struct {
		change func(*v1alpha1.Rollout)
		want   string
	}{
		"a failed step": {func(ro *v1alpha1.Rollout) {
			aborted(ro, "Rollout aborted update to revision 12: Step Plugin 3 (kedify/step) failed: smoke: it exited with 1; the last lines:\n  \x1b[31ma\x00\n\tb\n")
		}, "Step Plugin 3 (kedify/step) failed: smoke: it exited with 1; the last lines: [31ma b"},
		"the progress deadline": {func(ro *v1alpha1.Rollout) {
			aborted(ro, `Rollout aborted update to revision 2: ReplicaSet "app-new" has timed out progressing.`)
		}, `ReplicaSet "app-new" has timed out progressing.`},
		"somebody, seen at once":        {func(ro *v1alpha1.Rollout) { ro.Status.Abort = true }, ""},
		"somebody, stored by a scaling": {func(ro *v1alpha1.Rollout) { aborted(ro, "Rollout aborted update to revision 2") }, ""},
		"somebody, while an analysis runs": {func(ro *v1alpha1.Rollout) {
			ro.Status.Abort = true
			ro.Status.Canary.CurrentStepAnalysisRunStatus = run("app-2-1")
		}, ""},
		"an analysis of a step": {func(ro *v1alpha1.Rollout) { ro.Status.Canary.CurrentStepAnalysisRunStatus = run("app-2-1") }, "AnalysisRun app-2-1 has not succeeded"},
		"one of two analyses": {func(ro *v1alpha1.Rollout) {
			ro.Status.Canary.CurrentStepAnalysisRunStatus, ro.Status.Canary.CurrentBackgroundAnalysisRunStatus = run("app-2-1"), run("app-2")
		}, "AnalysisRun app-2-1 or AnalysisRun app-2 has not succeeded"},
		"an experiment": {func(ro *v1alpha1.Rollout) { ro.Status.Canary.CurrentExperiment = "app-2-0" }, "Experiment app-2-0 has not succeeded"},
		"nothing":       {func(*v1alpha1.Rollout) {}, ""},
		"another text":  {func(ro *v1alpha1.Rollout) { aborted(ro, "stopped") }, "stopped"},
	} {
		t.Run(name, func(t *testing.T) {
			// Work that has succeeded is undone, running work is cancelled: both know why.
			for _, poll := range []Phase{Successful, Running} {
				kind := &scripted{poll: after(0, poll)}
				h := newHost(t, kind, `{}`)
				h.run()
				h.run()
				test.change(h.ro)
				h.abort()
				all := slices.Concat(kind.undone, kind.cancelled)
				if len(all) != 1 || all[0].AbortReason != test.want {
					t.Errorf("%s: got %d clean-ups, %+v; want %q", poll, len(all), all, test.want)
				}
			}
		})
	}
	h := newHost(t, &scripted{poll: after(0, Successful)}, `{}`)
	h.until(3)
	aborted(h.ro, "Rollout aborted update to revision 2: "+strings.Repeat("ä", 2000))
	h.abort()
	if got := h.kind.undone[0].AbortReason; len(got) > maxReason || !strings.HasSuffix(got, "ä…") {
		t.Errorf("got %d bytes: %q", len(got), got)
	}
}

// The work of a step that has failed is cancelled with why it has; on a full promotion there
// is no reason.
func TestWhyAFailedStepIsCancelled(t *testing.T) {
	kind := &scripted{poll: func(context.Context, Work) (Progress, error) {
		return Progress{Phase: Failed, Message: "3 tests failed", Outcome: Done}, nil
	}}
	h := newHost(t, kind, `{}`)
	h.until(5)
	h.require(types.PhaseFailed)
	if len(kind.cancelled) != 1 || kind.cancelled[0].AbortReason != "3 tests failed" {
		t.Errorf("got %+v", kind.cancelled)
	}
	h = newHost(t, &scripted{}, `{"timeout": "30s"}`)
	h.until(10)
	h.require(types.PhaseFailed)
	if got := h.kind.cancelled; len(got) != 1 || got[0].AbortReason != "timed out after 30s: it runs" {
		t.Errorf("timeout: got %+v", got)
	}
	// The canary is aborted between the failure of its step and the step's clean-up.
	for reason, want := range map[string]string{"": "3 tests failed", "Rollout aborted update to revision 2: why": "why"} {
		kind.cancelled = nil
		h = newHost(t, kind, `{}`)
		h.run()
		h.run()
		if h.ro.Status.Abort = true; reason != "" {
			aborted(h.ro, reason)
		}
		h.abort()
		if len(kind.cancelled) != 1 || kind.cancelled[0].AbortReason != want {
			t.Errorf("aborted: got %+v, want %q", kind.cancelled, want)
		}
	}
	h = newHost(t, &scripted{poll: func(context.Context, Work) (Progress, error) { return Progress{}, errors.New("503") }}, `{}`)
	h.run()
	_, _ = h.plugin.Terminate(h.ro, h.context())
	if got := h.kind.cancelled; len(got) != 1 || got[0].AbortReason != "" {
		t.Errorf("full promotion: got %+v", got)
	}
}
