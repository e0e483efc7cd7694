package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	corev1 "k8s.io/api/core/v1"
)

// mayBeDone is a Start, Cancel or Undo that is sent and gets no answer.
func mayBeDone() error { return &Error{Outcome: MayBeDone, Cause: errors.New("503")} }

func lostStart(context.Context, Work) (Progress, error) { return Progress{}, mayBeDone() }

// A Start that may have been carried out is made three times at most, spread over the
// timeout, then the step cancels what may be there and fails. What certainly was not done
// does not count, and work that may be started again is.
func TestAStartThatMayBeDone(t *testing.T) {
	t.Run("each answer lost on its way from outside", func(t *testing.T) {
		h := newHost(t, &scripted{}, `{}`)
		var at []time.Duration
		begun, refused := h.clock, 0
		h.kind.start = func(context.Context, Work) (Progress, error) {
			if refused++; refused%2 == 0 {
				return Progress{}, errors.New("connection refused")
			}
			at = append(at, h.clock.Sub(begun).Round(time.Minute))
			return Progress{}, mayBeDone()
		}
		h.until(100)
		h.require(types.PhaseFailed, "it is not known whether the work was started", "3 starts", "503", "the run ", "the work was cancelled")
		if want := []time.Duration{0, 3 * time.Minute, 6 * time.Minute}; !slices.Equal(at, want) {
			t.Errorf("it was sent after %v, want %v", at, want)
		}
		if len(h.kind.cancelled) != 1 || h.kind.cancelled[0].Earlier != MayBeDone {
			t.Errorf("cancelled %+v", h.kind.cancelled)
		}
	})
	t.Run("each answer lost on its way to the Rollout", func(t *testing.T) {
		h := newHost(t, &scripted{start: lostStart}, `{}`)
		progress(h.ro, h.clock, corev1.ConditionTrue, "ReplicaSetUpdated")
		for range 30 {
			h.runUnstored()
		}
		if n := len(h.kind.started); n != 3 {
			t.Errorf("%d starts, want 3", n)
		}
		if h.status = h.last.Status; h.until(3).Phase != types.PhaseFailed || len(h.kind.cancelled) != 1 {
			t.Errorf("%s %s, %d cancels", h.last.Phase, h.last.Message, len(h.kind.cancelled))
		}
	})
	t.Run("and each process ends after it", func(t *testing.T) {
		h := newHost(t, &scripted{start: lostStart}, `{}`)
		h.run()
		for range 10 {
			h.restart()
			h.runUnstored()
			h.restart()
			if h.run().Phase != types.PhaseRunning {
				break
			}
		}
		h.require(types.PhaseFailed, "it is not known")
		if n := len(h.kind.started); n > 3 {
			t.Errorf("%d starts, want 3 at most", n)
		}
	})
	t.Run("each takes too long for a third", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t, &scripted{patience: 5 * time.Minute, start: func(ctx context.Context, _ Work) (Progress, error) {
				<-ctx.Done()
				return Progress{}, mayBeDone()
			}}, `{}`)
			h.untilIdle()
			h.require(types.PhaseFailed, "timed out", "the run ", " may be left", "the work was cancelled")
			if n := len(h.kind.started); n != 2 {
				t.Errorf("%d starts, want 2", n)
			}
		})
	})
	t.Run("another attempt has three of its own", func(t *testing.T) {
		h := newHost(t, &scripted{start: lostStart}, `{"retries": 1, "timeout": "1m"}`)
		h.kind.start = func(ctx context.Context, w Work) (Progress, error) {
			if len(h.kind.started) == 1 {
				return Progress{Phase: Failed, Message: "no", Outcome: MayBeDone}, nil
			}
			return Progress{}, mayBeDone()
		}
		h.until(20)
		h.require(types.PhaseFailed)
		if n := len(h.kind.started); n > 4 {
			t.Errorf("%d starts", n)
		}
	})
	t.Run("one that may be repeated", func(t *testing.T) {
		h := newHost(t, &scripted{start: lostStart, repeatable: true}, `{"onUnknown": "Fail"}`)
		h.until(100)
		h.require(types.PhaseFailed, "timed out", "the work was cancelled")
		if n := len(h.kind.started); n < 20 {
			t.Errorf("%d starts", n)
		}
	})
	t.Run("one that is done must not be repeated", func(t *testing.T) {
		h := newHost(t, &scripted{start: func(context.Context, Work) (Progress, error) {
			return Progress{}, &Error{Outcome: Done, Cause: errors.New("the answer is cut off")}
		}}, `{}`)
		h.until(10)
		h.require(types.PhaseFailed, "the answer is cut off", "the work was cancelled")
		if len(h.kind.started) != 1 || h.kind.cancelled[0].Earlier != Done {
			t.Errorf("%d starts, cancelled %+v", len(h.kind.started), h.kind.cancelled)
		}
	})
}

// A step that finds its work looks at each interval, and sends three times at most.
func TestAStartThatFinds(t *testing.T) {
	for _, found := range []bool{true, false} {
		h := newHost(t, &scripted{finds: true, poll: after(0, Successful)}, `{}`)
		looked, sent := 0, 0
		h.kind.start = func(_ context.Context, w Work) (Progress, error) {
			if !w.LookOnly {
				sent++
				return Progress{}, mayBeDone()
			}
			if looked++; looked == 20 && found {
				return running("it was found")
			}
			return Progress{}, errors.New("it was not found")
		}
		h.until(100)
		if found {
			h.require(types.PhaseSuccessful)
		} else {
			h.require(types.PhaseFailed, "timed out", "it was not found", "the work was cancelled")
		}
		if sent > 3 || looked < 18 {
			t.Errorf("sent %d times, looked %d times", sent, looked)
		}
	}
}

// What was refused is neither cancelled nor undone.
func TestARefusedStartIsNotCancelled(t *testing.T) {
	refused := &Error{Final: true, Cause: errors.New("409")}
	for name, start := range map[string]func(context.Context, Work) (Progress, error){
		"an error":    func(context.Context, Work) (Progress, error) { return Progress{}, refused },
		"a progress":  func(context.Context, Work) (Progress, error) { return Progress{Phase: Failed, Message: "409"}, nil },
		"a slow one":  slowly(func() (Progress, error) { return Progress{}, refused }),
		"not reached": func(context.Context, Work) (Progress, error) { return Progress{}, errors.New("409") },
		"too slow": func(ctx context.Context, _ Work) (Progress, error) {
			<-ctx.Done()
			return Progress{}, errors.New("not sent")
		},
	} {
		for _, config := range []string{`{}`, `{"onUnknown": "Fail"}`, `{"retries": 2}`} {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t, &scripted{start: start}, config)
				h.untilIdle()
				h.require(types.PhaseFailed)
				h.abort()
				time.Sleep(time.Hour)
				if len(h.kind.cancelled)+len(h.kind.undone) > 0 {
					t.Errorf("%s, %s: cancelled %v, undone %v", name, config, h.kind.cancelled, h.kind.undone)
				}
			})
		}
	}
	// One of two Starts may have been carried out.
	h := newHost(t, &scripted{}, `{}`)
	h.kind.start = func(context.Context, Work) (Progress, error) {
		if len(h.kind.started) == 1 {
			return Progress{}, mayBeDone()
		}
		return Progress{}, refused
	}
	h.until(10)
	h.require(types.PhaseFailed, "409; the run ", "the work was cancelled")
}

// The Rollout does not store that an attempt has failed, and the process ends: the work is
// not started again after it was cancelled (seed 61 of the random walks).
func TestWorkIsNotStartedAfterItsCancel(t *testing.T) {
	for _, config := range []string{`{}`, `{"retries": 1}`} {
		for lost := range 4 {
			h := newHost(t, &scripted{}, config)
			cancelled := map[string]bool{}
			h.kind.cancel = func(w Work) error { cancelled[w.Key] = true; return nil }
			h.kind.start = func(_ context.Context, w Work) (Progress, error) {
				if cancelled[w.Key] {
					t.Errorf("%s, answer %d lost: started after it was cancelled", config, lost)
				}
				return Progress{Phase: Failed, Message: "no id", Outcome: Done}, nil
			}
			h.until(lost)
			if h.last.Phase == types.PhaseFailed {
				continue
			}
			h.runUnstored()
			h.restart()
			h.until(10)
			h.require(types.PhaseFailed, "no id; the work was cancelled")
		}
	}
}

// A failure whose work is to be cancelled is said at once, and kept until it was, however
// much else the status holds.
func TestAFailureIsKept(t *testing.T) {
	outputs := map[string]string{}
	for i := range 90 {
		outputs[fmt.Sprintf("o%02d", i)] = "1234567890"
	}
	h := newHost(t, &scripted{}, `{}`)
	h.run()
	h.kind.poll = func(context.Context, Work) (Progress, error) {
		return Progress{Phase: Failed, Message: "why: " + string(make([]byte, 1500)), Outcome: Done, Outputs: outputs, State: json.RawMessage(`"` + fmt.Sprintf("%01020d", 1) + `"`)}, nil
	}
	h.run()
	h.require(types.PhaseRunning, "step 3: why: ", "its work is about to be cancelled")
	h.run()
	h.require(types.PhaseFailed, "step 3: why: ", "; the work was cancelled")
	if w := h.kind.cancelled[0]; len(w.Outputs) != 90 || len(w.State) != 1022 {
		t.Errorf("cancelled with %d outputs and a state of %d bytes", len(w.Outputs), len(w.State))
	}
}

// A Poll that would fail again fails the step, and its work is cancelled.
func TestAPollThatFailsForGood(t *testing.T) {
	h := newHost(t, &scripted{poll: func(context.Context, Work) (Progress, error) {
		return Progress{}, &Error{Final: true, Cause: errors.New("404")}
	}}, `{}`)
	h.until(5)
	h.require(types.PhaseFailed, "404; the work was cancelled")
}

// A clean-up that takes longer than a call is not reported as failed, and an Event tells how
// it ended.
func TestASlowCleanup(t *testing.T) {
	for name, tc := range map[string]struct {
		err          error
		event, after string
	}{
		"succeeds":          {nil, reasonCleanedUp, "the work was cancelled"},
		"has nothing to do": {ErrNoEffect, reasonCleanedUp, "there is nothing to cancel"},
		"is refused":        {&Error{Final: true, Cause: errors.New("403")}, reasonLeft, "the run "},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t, &scripted{cancel: func(Work) error { time.Sleep(5 * time.Second); return tc.err }}, `{}`)
			h.run()
			begun := time.Now()
			if result := h.abort(); result.Phase != types.PhaseSuccessful || result.Message != "step 3: cancelling the work goes on, for 8m0s at most: an Event tells how it ends" {
				t.Errorf("%s: %+v", name, result)
			}
			if took := time.Since(begun); took > 2*time.Second {
				t.Errorf("%s: the call took %s", name, took)
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			if !h.events.has(tc.event, "step 3: ", tc.after) || len(h.kind.cancelled) != 1 {
				t.Errorf("%s: Events %q after %d cancels", name, h.events.lines, len(h.kind.cancelled))
			}
		})
	}
}

// A clean-up that may have been carried out is made three times at most. One that asks for
// time gets it.
func TestACleanupThatMayBeDone(t *testing.T) {
	for name, tc := range map[string]struct {
		err         error
		least, most int
	}{
		"no answer":        {mayBeDone(), 3, 3},
		"not sent":         {errors.New("connection refused"), 10, 40},
		"refused for good": {&Error{Final: true, Cause: errors.New("403")}, 1, 1},
		"too busy":         {&Error{RetryAfter: 3 * time.Minute, Cause: errors.New("429")}, 3, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t, &scripted{repeatable: true, cancel: func(Work) error { return tc.err }}, `{}`)
			h.run()
			h.abort()
			time.Sleep(time.Hour)
			synctest.Wait()
			if n := len(h.kind.cancelled); n < tc.least || n > tc.most || !h.events.has(reasonLeft, "the run ", tc.err.Error()) {
				t.Errorf("%s: %d cancels, want %d to %d; Events %q", name, n, tc.least, tc.most, h.events.lines)
			}
		})
	}
}

// A second Abort, or a Terminate, does not repeat a clean-up that has succeeded.
func TestACleanupThatHasSucceeded(t *testing.T) {
	h := newHost(t, &scripted{}, `{}`)
	h.run()
	first := h.abort()
	terminated, _ := h.plugin.Terminate(h.ro, h.context())
	if again := h.abort(); again.Message != first.Message || terminated.Message != first.Message || len(h.kind.cancelled) != 1 {
		t.Errorf("%d cancels: %q, %q, %q", len(h.kind.cancelled), first.Message, terminated.Message, again.Message)
	}
}

// A Start that hangs at an abort may still be carried out after the Cancel: then the work is
// cancelled again.
func TestAnAbortWhileAStartHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var isThere atomic.Bool
		kind := &scripted{
			start: func(context.Context, Work) (Progress, error) {
				time.Sleep(time.Minute) // whatever its context says
				isThere.Store(true)
				return running("it runs")
			},
			cancel: func(Work) error { isThere.Store(false); return nil },
		}
		h := newHost(t, kind, `{}`)
		h.run()
		h.abort()
		time.Sleep(time.Hour)
		synctest.Wait()
		if isThere.Load() || len(kind.cancelled) != 2 || !h.events.has(reasonCleanedUp) {
			t.Errorf("the work is there: %t; %d cancels, Events %q", isThere.Load(), len(kind.cancelled), h.events.lines)
		}
	})
}

// The end of the process cuts clean-ups off, which Events tell.
func TestWhatTheEndOfTheProcessCutsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, &scripted{cancel: func(Work) error { time.Sleep(time.Minute); return nil }}, `{"id": "e2e"}`)
		h.run()
		h.plugin.Close()
		if h.events.has(reasonLeft) {
			t.Errorf("Events %q, and nothing is cut off", h.events.lines)
		}
		h.abort()
		time.Sleep(time.Second)
		h.plugin.Close()
		if !h.events.has(reasonLeft, "e2e: step 3: ", "the run ") {
			t.Errorf("Events %q", h.events.lines)
		}
		time.Sleep(time.Hour)
	})
}

// The clock goes back while a step runs: its timeout is not shorter for that, and hardly
// longer.
func TestAClockThatGoesBack(t *testing.T) {
	h := newHost(t, &scripted{start: lostStart}, `{"timeout": "5m"}`)
	h.run()
	h.clock = h.clock.Add(-2 * time.Hour)
	begun := h.clock
	h.until(100)
	h.require(types.PhaseFailed)
	if took := h.clock.Sub(begun); took < 2*time.Minute || took > 6*time.Minute || len(h.kind.started) != 3 {
		t.Errorf("it took %s and %d starts", took, len(h.kind.started))
	}
}

// A preset that cannot be used holds up a step that begins, until that is mended or the
// step's timeout has passed.
func TestAStepWaitsForItsPreset(t *testing.T) {
	source := &brokenPreset{err: errors.New(`preset smoke: unknown key "default"`)}
	h := newHost(t, &scripted{poll: after(0, Successful)}, `{}`)
	h.plugin.opts.Presets = source
	h.until(3)
	h.require(types.PhaseRunning, "its preset cannot be used, retrying: ", `unknown key "default"`)
	if !h.events.has(reasonRetried, `unknown key "default"`) || len(h.kind.started) > 0 {
		t.Errorf("%d starts, Events %q", len(h.kind.started), h.events.lines)
	}
	source.err = nil
	h.until(5)
	h.require(types.PhaseSuccessful)

	source.err = errors.New("preset smoke does not exist")
	h = newHost(t, &scripted{}, `{}`)
	h.plugin.opts.Presets = source
	begun := h.clock
	h.until(100)
	h.require(types.PhaseFailed, "timed out after 8m0s", "does not exist")
	if took := h.clock.Sub(begun); took > 9*time.Minute || len(h.kind.cancelled) > 0 {
		t.Errorf("it took %s and %d cancels", took, len(h.kind.cancelled))
	}
}

// The timeout of begun work holds in another process that cannot read the preset.
func TestATimeoutOutlivesItsProcess(t *testing.T) {
	source := &brokenPreset{}
	h := newHost(t, &scripted{}, `{"timeout": "2m"}`)
	h.plugin.opts.Presets = source
	h.run()
	begun := h.clock
	h.restart()
	source.err = errors.New("preset smoke does not exist")
	h.plugin.opts.Presets = source
	h.until(100)
	h.require(types.PhaseFailed, "timed out after 2m0s", "does not exist")
	if took := h.clock.Sub(begun); took > 3*time.Minute {
		t.Errorf("it took %s", took)
	}
}

// brokenPreset is a preset that cannot be used while it has an error.
type brokenPreset struct{ err error }

func (p *brokenPreset) Preset(context.Context, string) (*Preset, error) {
	if p.err != nil {
		return nil, &PresetError{Cause: p.err}
	}
	return &Preset{}, nil
}

// A step says how long its operations may take; a slow answer is waited for, call by call.
func TestAPatientStep(t *testing.T) {
	for patience, want := range map[time.Duration]types.StepPhase{6 * time.Minute: types.PhaseSuccessful, 0: types.PhaseFailed} {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t, &scripted{patience: patience, start: func(ctx context.Context, _ Work) (Progress, error) {
				select {
				case <-time.After(4 * time.Minute):
					return Progress{Phase: Successful, Message: "done"}, nil
				case <-ctx.Done():
					return Progress{}, &Error{Outcome: MayBeDone, Cause: ctx.Err()}
				}
			}}, `{}`)
			h.untilIdle()
			if h.require(want); patience > 0 && len(h.kind.started) != 1 {
				t.Errorf("%d starts", len(h.kind.started))
			}
		})
	}
}
