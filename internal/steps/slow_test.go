package steps

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// slowly delays an answer for longer than a call waits.
func slowly(answer func() (Progress, error)) func(context.Context, Work) (Progress, error) {
	return func(context.Context, Work) (Progress, error) {
		time.Sleep(2 * time.Second)
		return answer()
	}
}

// untilIdle makes Runs at the controller's intervals until the step is no longer running.
func (h *host) untilIdle() (took time.Duration) {
	begun := h.clock
	for range 200 {
		if h.run().Phase != types.PhaseRunning {
			break
		}
		time.Sleep(h.last.RequeueAfter + 5*time.Second)
	}
	return h.clock.Sub(begun)
}

// The outcome of a Poll that takes longer than a call is known soon, whatever the interval.
func TestASlowPoll(t *testing.T) {
	for _, interval := range []string{"15s", "1m", "2m"} {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t, &scripted{poll: slowly(func() (Progress, error) { return Progress{Phase: Successful, Message: "passed"}, nil })},
				`{"interval": "`+interval+`", "timeout": "8m"}`)
			took := h.untilIdle()
			h.require(types.PhaseSuccessful, "passed")
			if took > 3*time.Minute {
				t.Errorf("interval %s: it took %s", interval, took)
			}
		})
	}
}

// If a Start that takes longer than a call fails, its error is reported and Retry-After
// is heeded.
func TestASlowStartThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		starts := 0
		h := newHost(t, &scripted{start: slowly(func() (Progress, error) {
			starts++
			return Progress{}, &Error{Outcome: MayBeDone, RetryAfter: 5 * time.Minute, Cause: errors.New("503 Service Unavailable")}
		})}, `{"timeout": "8m"}`)
		h.untilIdle()
		h.require(types.PhaseFailed, "timed out after 8m0s")
		if starts > 3 || !h.events.has(reasonRetried, "503 Service Unavailable") {
			t.Errorf("%d starts, Events %q", starts, h.events.lines)
		}
	})
}

// A Start that takes longer than a call and was surely not carried out is repeated, even
// with onUnknown: Fail.
func TestASlowStartThatIsRefused(t *testing.T) {
	for _, onUnknown := range []string{"Fail", "Repeat"} {
		synctest.Test(t, func(t *testing.T) {
			refusals := 1
			kind := &scripted{poll: after(0, Successful), start: slowly(func() (Progress, error) {
				if refusals--; refusals >= 0 {
					return Progress{}, errors.New("connection refused")
				}
				return running("it runs")
			})}
			h := newHost(t, kind, `{"onUnknown": "`+onUnknown+`"}`)
			h.untilIdle()
			h.require(types.PhaseSuccessful)
			if len(kind.started) != 2 || len(kind.cancelled) != 0 {
				t.Errorf("%s: %d starts and %d cancels, want 2 and 0", onUnknown, len(kind.started), len(kind.cancelled))
			}
		})
	}
}

// No second Poll is made while the first has not ended.
func TestOnePollAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		polls := 0
		h := newHost(t, &scripted{poll: func(context.Context, Work) (Progress, error) {
			polls++
			time.Sleep(3 * time.Minute)
			return Progress{Phase: Successful}, nil
		}}, `{"timeout": "8m"}`)
		h.untilIdle()
		h.require(types.PhaseSuccessful)
		if polls != 1 {
			t.Errorf("%d polls", polls)
		}
	})
}

// progress sets the Progressing condition of a Rollout as Argo Rollouts does
// (rollout/sync.go).
func progress(ro *v1alpha1.Rollout, at time.Time, status corev1.ConditionStatus, reason string) {
	c := &ro.Status.Conditions[0]
	if c.Status != status {
		c.LastTransitionTime = metav1.NewTime(at)
	}
	c.Status, c.Reason, c.LastUpdateTime = status, reason, metav1.NewTime(at)
}

// Pods that come and go while a step runs do not lengthen its timeout.
func TestTheTimeoutWhilePodsComeAndGo(t *testing.T) {
	h := newHost(t, &scripted{}, `{"timeout": "2m"}`)
	begun := h.clock
	for h.last.Phase != types.PhaseFailed && h.clock.Sub(begun) < time.Hour {
		progress(h.ro, h.clock.Add(-time.Second), corev1.ConditionTrue, "ReplicaSetUpdated")
		h.run()
	}
	if took := h.clock.Sub(begun); took > 3*time.Minute {
		t.Errorf("it took %s", took)
	}
}

// While a step runs, the Rollout's conditions change: it is paused and resumed, and pods
// come. Another process of the plugin goes on with the same work.
func TestConditionsChangeBeforeARestart(t *testing.T) {
	for name, happens := range map[string]func(*host){
		"paused and resumed": func(h *host) {
			progress(h.ro, h.clock, corev1.ConditionUnknown, "RolloutPaused")
			h.clock = h.clock.Add(time.Minute)
			progress(h.ro, h.clock, corev1.ConditionUnknown, "RolloutResumed")
		},
		"retried before the step began": func(h *host) { progress(h.ro, h.clock, corev1.ConditionUnknown, "RolloutRetry") },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, &scripted{}, `{}`)
			progress(h.ro, h.clock, corev1.ConditionTrue, "ReplicaSetUpdated")
			if name == "paused and resumed" {
				h.until(2)
			}
			happens(h)
			h.run()
			progress(h.ro, h.clock, corev1.ConditionTrue, "ReplicaSetUpdated")
			h.run()
			h.restart()
			h.until(2)
			h.require(types.PhaseRunning)
			if len(h.kind.started) != 1 || len(h.kind.cancelled) != 0 {
				t.Errorf("%d starts and %d cancels, want 1 and 0", len(h.kind.started), len(h.kind.cancelled))
			}
		})
	}
}
