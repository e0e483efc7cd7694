package steps

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/utils/plugin/types"
)

// RetryAfter is heeded beside an error, too, as when the outside system is too busy.
func TestRetryAfterBesideAnError(t *testing.T) {
	busy := func(context.Context, Work) (Progress, error) {
		return Progress{}, &Error{RetryAfter: 2 * time.Minute, Cause: errors.New("429")}
	}
	h := newHost(t, &scripted{start: busy}, `{}`)
	if after := h.run().RequeueAfter; after != 2*time.Minute {
		t.Errorf("Start: asked to come back in %s, want 2m", after)
	}
	h = newHost(t, &scripted{poll: busy}, `{}`)
	h.run()
	if after := h.run().RequeueAfter; after != 2*time.Minute {
		t.Errorf("Poll: asked to come back in %s, want 2m", after)
	}
}

// If a step fails while its work may still run, the work is cancelled: the controller
// makes no Abort for a failed step.
func TestAFailureThatLeavesTheWorkRunning(t *testing.T) {
	fails := func(context.Context, Work) (Progress, error) {
		return Progress{Phase: Failed, Message: "403", Outcome: Done}, nil
	}
	for name, kind := range map[string]*scripted{"in Start": {start: fails}, "in Poll": {poll: fails}} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, kind, `{"retries": 1}`)
			h.until(10)
			h.require(types.PhaseFailed, "403; the work was cancelled")
			if len(kind.cancelled) != 2 || kind.cancelled[0].Key == kind.cancelled[1].Key {
				t.Errorf("%d cancels, want one of each attempt", len(kind.cancelled))
			}
		})
	}
	kind := &scripted{poll: func(context.Context, Work) (Progress, error) {
		return Progress{Phase: Failed, Message: "403", Outcome: Done}, nil
	}}
	h := newHost(t, kind, `{"timeout": "1s"}`)
	h.until(10)
	h.require(types.PhaseFailed, "403; the work was cancelled")
	if len(kind.cancelled) != 1 {
		t.Errorf("before the timeout: %d cancels, want 1", len(kind.cancelled))
	}
}

// If a step cannot stop its work, or only reads, no message says that the work was
// cancelled.
func TestAStepWithoutCleanup(t *testing.T) {
	for err, want := range map[error]struct{ cancel, undo string }{
		ErrNoCleanup: {"the work is left as it is: the step has nothing that would cancel it", "the work is left as it is: the step has nothing that would undo it"},
		ErrNoEffect:  {"there is nothing to cancel", "there is nothing to undo"},
	} {
		nothing := func(Work) error { return err }
		kind := &scripted{cancel: nothing, undo: nothing}
		h := newHost(t, kind, `{"timeout": "1s"}`)
		h.until(10)
		h.require(types.PhaseFailed, want.cancel)
		h = newHost(t, &scripted{poll: after(0, Successful), cancel: nothing, undo: nothing}, `{}`)
		h.until(10)
		result, _ := h.plugin.Abort(h.ro, h.context())
		if result.Phase != types.PhaseSuccessful || result.Message != "step 3: "+want.undo {
			t.Errorf("Abort: got %s %q", result.Phase, result.Message)
		}
		if len(kind.cancelled) != 1 || h.events.has(reasonLeft) {
			t.Errorf("%v: it is tried again: %d times, Events %q", err, len(kind.cancelled), h.events.lines)
		}
	}
}
