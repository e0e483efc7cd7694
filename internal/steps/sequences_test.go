package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// abort makes an Abort for the step that a host runs.
func (h *host) abort() types.RpcStepResult {
	h.t.Helper()
	result, err := h.plugin.Abort(h.ro, h.context())
	if err.HasError() {
		h.t.Fatalf("Abort: %v", err)
	}
	return result
}

// retry makes the Rollout's canary one that was retried after an abort, at a time in Unix
// seconds.
func (h *host) retry(at int64) {
	h.ro.Status.Conditions[0].LastTransitionTime = metav1.Unix(at, 0)
	h.status = nil
}

// eventually polls until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// Cancel gets what the last Poll returned: the run's id may be there.
func TestCancelHasTheLatestState(t *testing.T) {
	h := newHost(t, &scripted{
		start: func(context.Context, Work) (Progress, error) {
			return Progress{Phase: Running, State: json.RawMessage(`"dispatched"`), Outputs: map[string]string{"url": "none"}}, nil
		},
		poll: func(context.Context, Work) (Progress, error) {
			return Progress{Phase: Running, State: json.RawMessage(`"run 7"`), Outputs: map[string]string{"url": "run/7"}}, nil
		},
	}, `{}`)
	h.run()
	h.run()
	h.abort()
	if got := h.kind.cancelled[0]; string(got.State) != `"run 7"` || got.Outputs["url"] != "run/7" {
		t.Errorf("cancelled with state %s and outputs %v, want those of the last Poll", got.State, got.Outputs)
	}
}

// Work that has succeeded since the last Poll is undone by an abort.
func TestWorkThatEndsBetweenTwoPolls(t *testing.T) {
	for phase, want := range map[Phase][2]int{Successful: {1, 0}, Failed: {0, 1}, Running: {0, 1}} {
		h := newHost(t, &scripted{}, `{}`)
		h.run()
		h.run()
		h.kind.poll = after(0, phase)
		h.abort()
		if got := [2]int{len(h.kind.undone), len(h.kind.cancelled)}; got != want {
			t.Errorf("%s: %d undone and %d cancelled, want %d and %d", phase, got[0], got[1], want[0], want[1])
		}
	}
}

// presets is the source of a preset that a test changes.
type presets struct{ preset *Preset }

func (p *presets) Preset(context.Context, string) (*Preset, error) { return p.preset, nil }

// A running step goes on, and can be undone, if the preset no longer suits it.
func TestAPresetThatNoLongerSuits(t *testing.T) {
	for name, preset := range map[string]*Preset{
		"a value that the kind refuses": {Defaults: map[string]any{"retries": "two"}},
		"a key that is locked now":      {Locked: []string{"timeout"}},
	} {
		t.Run(name, func(t *testing.T) {
			source := &presets{&Preset{}}
			h := newHost(t, &scripted{poll: after(1, Successful)}, `{"timeout": "5m"}`)
			h.plugin.opts.Presets = source
			h.run()
			source.preset = preset
			h.until(5)
			h.require(types.PhaseSuccessful)
			if result := h.abort(); result.Phase != types.PhaseSuccessful || len(h.kind.undone) != 1 {
				t.Errorf("Abort = %+v", result)
			}
			h.retry(500)
			if h.run(); preset.Locked == nil { // the admin's to mend
				h.require(types.PhaseRunning, "its preset cannot be used, retrying: defaults: retries")
			} else {
				h.require(types.PhaseFailed)
			}
		})
	}
}

// Anyone who may edit a Rollout may edit its status. A status that is copied from another
// Rollout gives no access to that Rollout's work.
func TestAStatusOfAnotherRollout(t *testing.T) {
	victim := newHost(t, &scripted{start: func(ctx context.Context, _ Work) (Progress, error) {
		<-ctx.Done()
		return Progress{}, ctx.Err()
	}}, `{}`)
	victim.run()
	attacker := *victim
	attacker.ro = victim.ro.DeepCopy()
	attacker.ro.UID, attacker.ro.Namespace = "u-2", "other"
	attacker.abort()
	if victim.plugin.attempts.of(victim.kind.starts()[0].Key).op == nil {
		t.Error("another Rollout has ended the Start")
	}
	for _, w := range victim.kind.cancelled {
		if w.Key == victim.kind.starts()[0].Key {
			t.Error("cancelled under the key of another Rollout")
		}
	}
}

// A status that the plugin cannot have written is refused.
func TestAForgedStatus(t *testing.T) {
	const key = "0123456789abcdef0123456789abcdef"
	for name, s := range map[string]map[string]any{
		"a header in the key":     {"key": "a\r\nX-Evil: 1"},
		"a path in the key":       {"key": "../x"},
		"a large key":             {"key": strings.Repeat("k", 1<<20)},
		"an unknown stage":        {"stage": "Other"},
		"too many attempts":       {"attempt": 100},
		"a step before the first": {"index": -1},
		"a template as id":        {"id": "{{ . }}"},
		"large outputs":           {"outputs": map[string]string{"x": strings.Repeat("x", 5000)}},
		"a large state":           {"state": strings.Repeat("x", 2000)},
	} {
		all := map[string]any{"kind": "scripted", "key": key, "attempt": 1, "stage": "Running", "id": "0", "index": 0}
		for field, value := range s {
			all[field] = value
		}
		raw, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		h := newHost(t, &scripted{}, `{}`)
		h.status = raw
		h.run()
		if h.last.Phase != types.PhaseFailed {
			t.Errorf("%s: %s", name, h.last.Phase)
		}
	}
}

// With onUnknown: Fail there is no second Start, even if the answer that the step has
// failed is lost, or the process has forgotten the outcome of the first Start.
func TestAtMostOnceWithinOneProcess(t *testing.T) {
	h := newHost(t, &scripted{start: func(context.Context, Work) (Progress, error) {
		return Progress{}, &Error{Outcome: MayBeDone, Cause: errors.New("cut")}
	}}, `{"onUnknown": "Fail"}`)
	h.run()
	h.runUnstored()
	h.run()
	if len(h.kind.started) != 1 {
		t.Errorf("%d starts after a failure was lost", len(h.kind.started))
	}

	h = newHost(t, &scripted{start: func(ctx context.Context, _ Work) (Progress, error) {
		<-ctx.Done()
		return Progress{}, &Error{Outcome: MayBeDone, Cause: ctx.Err()}
	}}, `{"onUnknown": "Fail"}`)
	h.run()
	h.run()
	eventually(t, "the work is started", func() bool { return len(h.kind.starts()) == 1 })
	h.plugin.attempts.end(h.kind.starts()[0].Key)
	h.plugin.attempts.all, h.plugin.attempts.process = map[string]*attempt{}, "another" // it has forgotten that
	h.run()
	if n := len(h.kind.starts()); n != 1 {
		t.Errorf("%d starts after the outcome was forgotten", n)
	}
}

// A Start is told that an earlier Start may have been carried out, unless that is
// impossible.
func TestAStartIsToldOfEarlierOnes(t *testing.T) {
	unanswered := func(context.Context, Work) (Progress, error) {
		return Progress{}, &Error{Outcome: MayBeDone, Cause: errors.New("cut")}
	}
	refused := func(context.Context, Work) (Progress, error) { return Progress{}, errors.New("refused") }
	for name, tc := range map[string]struct {
		start   func(context.Context, Work) (Progress, error)
		between func(*host)
		unknown bool
	}{
		"after a crash":               {unanswered, func(h *host) { h.status = h.last.Status; h.restart() }, true},
		"after an answer was lost":    {unanswered, func(*host) {}, true},
		"after one that was not made": {refused, func(h *host) { h.status = h.last.Status }, false},
	} {
		h := newHost(t, &scripted{start: tc.start}, `{}`)
		h.runUnstored()
		tc.between(h)
		for n := 0; n < 5 && len(h.kind.started) < 2; n++ {
			h.run()
		}
		if len(h.kind.started) != 2 || (h.kind.started[1].Earlier != NotDone) != tc.unknown {
			t.Errorf("%s: %d starts, the last told %v", name, len(h.kind.started), h.kind.started[len(h.kind.started)-1].Earlier)
		}
	}
}

// An abort cancels work if the answer to its Start was lost, and cancels nothing if
// surely no work was started.
func TestAbortAfterALostStart(t *testing.T) {
	for name, tc := range map[string]struct {
		config         string
		starts, crash  bool
		cancelled      int
		cancelledKnown bool
	}{
		"started, the process stays":         {`{}`, true, false, 1, true},
		"started, a new process":             {`{}`, true, true, 1, false},
		"not started, the process stays":     {`{}`, false, false, 0, false},
		"not started, a step that must know": {`{"onUnknown": "Fail"}`, false, false, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, &scripted{start: func(context.Context, Work) (Progress, error) { return Progress{}, errors.New("refused") }}, tc.config)
			h.run()
			if tc.starts {
				h.kind.start = nil
				h.runUnstored()
			}
			if tc.crash {
				h.restart()
			}
			h.abort()
			if len(h.kind.cancelled) != tc.cancelled || tc.cancelled > 0 && (h.kind.cancelled[0].Earlier != Done) == tc.cancelledKnown {
				t.Errorf("cancelled %+v, want %d", h.kind.cancelled, tc.cancelled)
			}
		})
	}
}

// The step of a retried canary waits for the clean-up of the previous canary, which would
// undo what the step is about to do.
func TestARetryWaitsForTheCleanUp(t *testing.T) {
	var fails atomic.Bool
	fails.Store(true)
	kind := &scripted{poll: after(0, Successful), undo: func(Work) error {
		if fails.Load() {
			return errors.New("busy")
		}
		return nil
	}}
	h := newHost(t, kind, `{}`)
	h.until(5)
	h.abort()
	h.retry(500)
	h.run()
	h.require(types.PhaseRunning, "waiting for the clean-up of the attempt before")
	fails.Store(false)
	eventually(t, "the clean-up ends", func() bool { return h.plugin.attempts.cleanupOf(h.ro.UID, 2) == nil })
	h.run()
	if len(kind.started) != 2 {
		t.Errorf("%d starts, want that of the retried canary, too", len(kind.started))
	}
}

// An operation that ignores the end of its context holds up neither a timeout nor an
// abort.
func TestAnOperationThatHangs(t *testing.T) {
	h := newHost(t, &scripted{poll: func(context.Context, Work) (Progress, error) { select {} }}, `{"timeout": "2m"}`)
	h.until(100)
	h.require(types.PhaseFailed, "timed out after 2m0s")
	eventually(t, "the work is cancelled", func() bool {
		h.kind.mu.Lock()
		defer h.kind.mu.Unlock()
		return len(h.kind.cancelled) == 1
	})
}

// panicking is a kind whose Parse panics.
type panicking struct{ *scripted }

func (panicking) Parse(Source) (Step, error) { panic("oh") }

// A panic in Parse is an error of that step: a step that begins fails, a step that runs
// times out.
func TestAPanicOfParse(t *testing.T) {
	h := newHost(t, &scripted{}, `{"timeout": "1m"}`)
	h.run()
	h.plugin.opts.Kind = panicking{h.kind}
	h.run()
	h.require(types.PhaseRunning, "a bug in the plugin")
	h.until(50)
	h.require(types.PhaseFailed, "timed out")
	h.retry(500)
	h.run()
	h.require(types.PhaseFailed, "a bug in the plugin")
}

// The result of a Poll is used for a minute at most: the Rollout may have been paused
// since.
func TestAStaleLook(t *testing.T) {
	release := make(chan struct{})
	var polls atomic.Int32
	h := newHost(t, &scripted{poll: func(context.Context, Work) (Progress, error) {
		if polls.Add(1) == 1 {
			<-release
			return Progress{Phase: Successful, Message: "open"}, nil
		}
		return Progress{Phase: Running, Message: "closed again"}, nil
	}}, `{}`)
	h.run()
	h.run()
	close(release)
	op := h.plugin.attempts.of(h.kind.started[0].Key).op
	<-op.done
	progress(h.ro, h.clock, corev1.ConditionUnknown, "RolloutPaused")
	h.clock = h.clock.Add(time.Hour)
	progress(h.ro, h.clock, corev1.ConditionUnknown, "RolloutResumed")
	h.run()
	h.require(types.PhaseRunning, "closed again")
}

// A step fails before the progress deadline has passed, even if its first call comes late
// or the outside system asks to be called again after that.
func TestLateCalls(t *testing.T) {
	for name, prepare := range map[string]func(*host){
		"a late first call":   func(h *host) { h.clock = h.clock.Add(4 * time.Minute) },
		"a long Retry-After":  func(h *host) { h.kind.poll = busy },
		"a call in the midst": func(h *host) { h.run(); h.clock = h.clock.Add(6 * time.Minute) },
	} {
		h := newHost(t, &scripted{}, `{}`)
		h.ro.Status.Conditions[0].LastUpdateTime = metav1.NewTime(h.clock)
		begun := h.clock
		prepare(h)
		h.until(100)
		if took := h.clock.Sub(begun); h.last.Phase != types.PhaseFailed || took > 10*time.Minute {
			t.Errorf("%s: %s after %s, want failed before 10m", name, h.last.Phase, took)
		}
	}
}

func busy(context.Context, Work) (Progress, error) {
	return Progress{Phase: Running, Message: "429", RetryAfter: 5 * time.Minute}, nil
}

// A progress deadline that becomes shorter while a step runs does not keep it from
// succeeding.
func TestADeadlineThatBecomesShorter(t *testing.T) {
	hour, ten := int32(3600), int32(600)
	h := newHost(t, &scripted{}, `{"timeout": "30m"}`)
	h.ro.Spec.ProgressDeadlineSeconds = &hour
	h.run()
	h.kind.poll = after(0, Successful)
	h.ro.Spec.ProgressDeadlineSeconds = &ten
	h.run()
	h.require(types.PhaseSuccessful)
}

// An invalid answer from a kind is an error, and never a success.
func TestWhatAKindMustNotAnswer(t *testing.T) {
	for name, p := range map[string]Progress{
		"no phase":           {},
		"a state of no JSON": {Phase: Successful, State: json.RawMessage(`{`)},
		"a large state":      {Phase: Successful, State: json.RawMessage(`"` + strings.Repeat("<", 1020) + `"`)},
	} {
		h := newHost(t, &scripted{poll: func(context.Context, Work) (Progress, error) { return p, nil }}, `{}`)
		h.run()
		h.run()
		if h.last.Phase != types.PhaseRunning || !strings.Contains(h.last.Message, "a bug in the plugin") {
			t.Errorf("%s: %s %s", name, h.last.Phase, h.last.Message)
		}
	}
}

// A status stays below its limit even if each of its parts is as large as it may be, and
// no output is dropped to make room for the description of a wait.
func TestTheLargestStatus(t *testing.T) {
	outputs := map[string]string{}
	for i := range 90 {
		outputs[fmt.Sprintf("o%02d", i)] = "1234567890"
	}
	h := newHost(t, &scripted{poll: func(context.Context, Work) (Progress, error) {
		return Progress{Phase: Running, Waiting: strings.Repeat("<", 128), Outputs: outputs, State: json.RawMessage(`"` + strings.Repeat("x", 1020) + `"`)}, nil
	}}, `{"id": "`+strings.Repeat("i", 63)+`"}`)
	h.run()
	h.run()
	var s status
	if err := json.Unmarshal(h.status, &s); err != nil || len(s.Outputs) != len(outputs) || len(s.State) != 1022 {
		t.Errorf("%d outputs and a state of %d bytes: %v; Events %q", len(s.Outputs), len(s.State), err, h.events.lines)
	}
}

// What one tenant can make this process keep in memory is bounded.
func TestWhatATenantCanPileUp(t *testing.T) {
	never := int32(2147483647)
	kind := &scripted{
		start: func(context.Context, Work) (Progress, error) {
			return Progress{Phase: Running, Outputs: map[string]string{"x": strings.Repeat("x", 1<<20)}}, nil
		},
		cancel: func(Work) error { return errors.New("503") },
	}
	h := newHost(t, kind, `{"timeout": "24h"}`)
	h.ro.Spec.ProgressDeadlineSeconds = &never
	// As if each canary was retried when the clean-up of the one before is 2 minutes old.
	retry := func(at int64) {
		h.retry(at)
		h.plugin.attempts.mu.Lock()
		defer h.plugin.attempts.mu.Unlock()
		for _, a := range h.plugin.attempts.all {
			if a.cleanup != nil {
				a.cleanup.begun = time.Now().Add(-retryPatience)
			}
		}
	}
	for i := range 100 {
		retry(int64(1000 + i))
		h.run()
		h.abort()
	}
	eventually(t, "the oldest clean-ups of a Rollout end", func() bool {
		h.plugin.attempts.mu.Lock()
		defer h.plugin.attempts.mu.Unlock()
		underWay := 0
		for _, a := range h.plugin.attempts.all {
			if a.cleanup != nil && !a.cleanup.over {
				underWay++
			}
		}
		return underWay <= maxCleanups
	})
	all := func() map[string]*attempt {
		h.plugin.attempts.mu.Lock()
		defer h.plugin.attempts.mu.Unlock()
		return maps.Clone(h.plugin.attempts.all)
	}
	eventually(t, "100 starts, which have ended", func() bool {
		for _, a := range all() {
			if a.op != nil && !isClosed(a.op.done) {
				return false
			}
		}
		return len(h.kind.starts()) == 100
	})
	for key, a := range all() {
		if a.op != nil && jsonSize(a.op.progress.Outputs) > outputsLimit {
			t.Errorf("an outcome of %d bytes is kept for %v", jsonSize(a.op.progress.Outputs), key)
		}
	}
	h.clock = h.clock.Add(2 * attemptKept)
	retry(5000)
	h.run()
	kept := all()
	maps.DeleteFunc(kept, func(_ string, a *attempt) bool { return a.op == nil })
	if len(kept) > 1 {
		t.Errorf("%d outcomes are kept after days", len(kept))
	}
}

// A configuration that is too large or too deep is refused before it is processed, and
// numbers stay as they are written.
func TestConfigurationsAreBounded(t *testing.T) {
	for name, config := range map[string]string{
		"large": `{"id": "` + strings.Repeat("x", configLimit) + `"}`,
		"deep":  strings.Repeat(`{"a":`, 101) + "1" + strings.Repeat("}", 101),
		"lists": `{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}",
	} {
		h := newHost(t, &scripted{}, config)
		h.run()
		h.require(types.PhaseFailed, "config: ")
		if len(h.kind.started) > 0 {
			t.Errorf("%s: work was started", name)
		}
	}
	kind := &kept{name: "http"}
	if _, err := (Reader{Kind: kind}).read(rolloutIn("demo"), json.RawMessage(`{"request": {"url": 1234567890123456789}}`), false, func(string) (*Preset, error) { return &Preset{}, nil }); err != nil || !strings.Contains(string(kind.source.Config), "1234567890123456789") {
		t.Errorf("%s, %v", kind.source.Config, err)
	}
}

// While enough calls wait for a slow outside system, further calls wait only for a
// moment, so that the controller keeps its workers.
func TestCallsDoNotWaitTogether(t *testing.T) {
	h := newHost(t, &scripted{poll: func(ctx context.Context, _ Work) (Progress, error) { <-ctx.Done(); return Progress{}, ctx.Err() }}, `{}`)
	h.run()
	o := h.plugin.attempts
	o.wait = time.Hour
	for range waits {
		o.waiting <- struct{}{}
	}
	h.run() // would take an hour
	h.require(types.PhaseRunning, "waiting for an answer")
}

// Argo Rollouts gives the first step of a retried canary the status from before the
// abort: the step begins anew, with another key. If the Rollout was only paused, the
// status is used.
func TestTheStatusOfTheCanaryBefore(t *testing.T) {
	at := func(ro *v1alpha1.Rollout, second int64) {
		ro.Status.Conditions[0].LastTransitionTime = metav1.Unix(second, 0)
	}
	aborted := func(h *host) {
		h.abort()
		h.ro.Status.Canary.StepPluginStatuses = []v1alpha1.StepPluginStatus{
			{Index: 2, Name: "acme/step", Operation: v1alpha1.StepPluginOperationRun},
			{Index: 2, Name: "acme/step", Operation: v1alpha1.StepPluginOperationAbort},
		}
	}
	for name, tc := range map[string]struct {
		happens   func(*host)
		starts    int
		cancelled int
	}{
		"retried":                                    {func(h *host) { aborted(h); at(h.ro, 500) }, 2, 1},
		"retried within a second":                    {aborted, 2, 1},
		"retried in another process":                 {func(h *host) { aborted(h); h.restart(); at(h.ro, 500) }, 2, 2},
		"retried in another process within a second": {func(h *host) { aborted(h); h.restart() }, 2, 2},
		"resumed":                    {func(h *host) { at(h.ro, 500) }, 1, 0},
		"resumed in another process": {func(h *host) { h.restart(); at(h.ro, 500) }, 1, 0},
		"another process, as before": {(*host).restart, 1, 0},
		"another step was aborted, which is not this": {func(h *host) {
			h.restart()
			h.ro.Status.Canary.StepPluginStatuses = []v1alpha1.StepPluginStatus{{Index: 1, Name: "acme/step", Operation: v1alpha1.StepPluginOperationAbort}}
		}, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, &scripted{}, `{}`)
			h.until(3)
			tc.happens(h)
			h.run()
			h.ro.Status.Canary.StepPluginStatuses = nil
			eventually(t, "the clean-up ends", func() bool { return h.plugin.attempts.cleanupOf(h.ro.UID, 2) == nil })
			h.run()
			h.require(types.PhaseRunning)
			starts := h.kind.starts()
			if len(starts) != tc.starts || len(h.kind.cancelled) != tc.cancelled {
				t.Fatalf("%d starts and %d cancels, want %d and %d", len(starts), len(h.kind.cancelled), tc.starts, tc.cancelled)
			}
			if last := starts[len(starts)-1]; tc.starts > 1 && (last.Key == starts[0].Key || len(last.Outputs) > 0) {
				t.Errorf("the second Start has key %s of the first, %s, or outputs %v", last.Key, starts[0].Key, last.Outputs)
			}
		})
	}
}
