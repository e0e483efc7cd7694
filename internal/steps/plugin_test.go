package steps

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// scripted is a kind whose steps do what a test says.
type scripted struct {
	mu                sync.Mutex
	start, poll       func(context.Context, Work) (Progress, error)
	cancel, undo      func(Work) error
	started           []Work
	cancelled, undone []Work
	polled            atomic.Int32
	repeatable, finds bool
	patience          time.Duration
}

func (k *scripted) Name() string { return "scripted" }

func (k *scripted) Parse(Source) (Step, error) {
	return &scriptedStep{k}, nil
}

type scriptedStep struct{ *scripted }

func (s *scriptedStep) Repeatable() bool { return s.repeatable }
func (s *scriptedStep) Finds() bool      { return s.finds }
func (s *scriptedStep) OperationTimeout() time.Duration {
	return cmp.Or(s.patience, operationTimeout)
}
func (s *scriptedStep) Left(w Work) string { return "the run " + w.Key[:6] }

func (s *scriptedStep) Start(ctx context.Context, w Work) (Progress, error) {
	s.mu.Lock()
	s.started = append(s.started, w)
	start := s.start
	s.mu.Unlock()
	if start == nil {
		return Progress{Phase: Running, Message: "it runs"}, nil
	}
	return start(ctx, w)
}

func (s *scriptedStep) Poll(ctx context.Context, w Work) (Progress, error) {
	s.polled.Add(1)
	if s.poll == nil {
		return Progress{Phase: Running, Message: "it runs"}, nil
	}
	return s.poll(ctx, w)
}

func (s *scriptedStep) Cancel(_ context.Context, w Work) error {
	s.mu.Lock()
	s.cancelled = append(s.cancelled, w)
	s.mu.Unlock()
	if s.cancel != nil {
		return s.cancel(w)
	}
	return nil
}

func (s *scriptedStep) Undo(_ context.Context, w Work) error {
	s.mu.Lock()
	s.undone = append(s.undone, w)
	s.mu.Unlock()
	if s.undo != nil {
		return s.undo(w)
	}
	return nil
}

// starts returns the Starts so far.
func (k *scripted) starts() []Work {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.started)
}

// logbook keeps Events.
type logbook struct {
	mu    sync.Mutex
	lines []string
}

func (l *logbook) Warn(_ *v1alpha1.Rollout, reason, _, message string) { l.add(reason, message) }
func (l *logbook) Note(_ *v1alpha1.Rollout, reason, message string)    { l.add(reason, message) }

func (l *logbook) add(reason, message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, reason+" "+message)
}

func (l *logbook) has(parts ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		all := true
		for _, part := range parts {
			all = all && strings.Contains(line, part)
		}
		if all {
			return true
		}
	}
	return false
}

// host calls a plugin as the controller does for a Rollout's current step
// (rollout/steps/plugin of argo-rollouts v1.10.1).
type host struct {
	t      *testing.T
	kind   *scripted
	plugin *Plugin
	events *logbook
	config string
	ro     *v1alpha1.Rollout
	clock  time.Time
	// now is the time of the last call in nanoseconds, for what runs in the background.
	now    *atomic.Int64
	status json.RawMessage
	last   types.RpcStepResult
}

func newHost(t *testing.T, kind *scripted, config string) *host {
	index := int32(2)
	h := &host{
		t: t, kind: kind, config: config, events: &logbook{}, now: &atomic.Int64{}, clock: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		ro: &v1alpha1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "app", UID: "u-1", Annotations: map[string]string{revisionAnnotation: "2"}}},
	}
	h.ro.Status.CurrentStepIndex, h.ro.Status.CurrentPodHash, h.ro.Status.CurrentStepHash = &index, "new", "steps"
	h.ro.Status.Conditions = []v1alpha1.RolloutCondition{{Type: v1alpha1.RolloutProgressing, LastTransitionTime: metav1.Unix(100, 0)}}
	h.restart()
	return h
}

// restart starts a new process of the plugin.
func (h *host) restart() {
	h.plugin = New(Options{Kind: h.kind, Events: h.events, Logger: hclog.NewNullLogger()})
	h.plugin.now = func() time.Time { return time.Unix(0, h.now.Load()) }
	h.plugin.attempts.wait, h.plugin.attempts.endWait = 2*time.Second, 100*time.Millisecond
}

func (h *host) context() *types.RpcStepContext {
	return &types.RpcStepContext{PluginName: "acme/step", Config: json.RawMessage(h.config), Status: h.status}
}

// run makes a Run, and stores its answer as the controller does.
func (h *host) run() types.RpcStepResult {
	h.t.Helper()
	h.runUnstored()
	h.status = h.last.Status
	return h.last
}

// runUnstored makes a Run whose answer is lost.
func (h *host) runUnstored() {
	h.t.Helper()
	h.now.Store(h.clock.UnixNano())
	result, err := h.plugin.Run(h.ro, h.context())
	if err.HasError() {
		h.t.Fatalf("Run: %v", err)
	}
	if len(result.Status) > statusLimit {
		h.t.Errorf("a status of %d bytes", len(result.Status))
	}
	h.last = result
	if result.Phase == types.PhaseRunning {
		if result.RequeueAfter < minInterval {
			h.t.Errorf("asked to come back in %s, which the controller makes 30 s", result.RequeueAfter)
		}
		h.clock = h.clock.Add(result.RequeueAfter + 5*time.Second)
	}
}

// until makes Runs until the step is no longer running, at most n.
func (h *host) until(n int) types.RpcStepResult {
	h.t.Helper()
	for range n {
		if h.run().Phase != types.PhaseRunning {
			return h.last
		}
	}
	return h.last
}

func (h *host) require(phase types.StepPhase, parts ...string) {
	h.t.Helper()
	if h.last.Phase != phase {
		h.t.Errorf("phase %s, want %s (%s)", h.last.Phase, phase, h.last.Message)
	}
	for _, part := range parts {
		if !strings.Contains(h.last.Message, part) {
			h.t.Errorf("message %q, want one with %q", h.last.Message, part)
		}
	}
}

func running(message string) (Progress, error) {
	return Progress{Phase: Running, Message: message}, nil
}

// after returns a Poll that answers Running n times, and then ends in a phase.
func after(n int, phase Phase) func(context.Context, Work) (Progress, error) {
	return func(context.Context, Work) (Progress, error) {
		if n--; n >= 0 {
			return running("it runs")
		}
		return Progress{Phase: phase, Message: "it has ended", Outputs: map[string]string{"url": "u"}}, nil
	}
}

// A step starts its work once, polls it, and ends as the work does.
func TestAStep(t *testing.T) {
	for phase, want := range map[Phase]types.StepPhase{Successful: types.PhaseSuccessful, Failed: types.PhaseFailed} {
		t.Run(string(phase), func(t *testing.T) {
			h := newHost(t, &scripted{poll: after(2, phase)}, `{"id": "e2e"}`)
			h.until(10)
			h.require(want, "it has ended")
			if len(h.kind.started) != 1 || len(h.kind.cancelled) != 0 {
				t.Errorf("%d starts and %d cancels, want 1 and none", len(h.kind.started), len(h.kind.cancelled))
			}
			if !h.events.has(reasonWaiting, "e2e: step 3: it runs") {
				t.Errorf("Events %q lack what the step waits for", h.events.lines)
			}
			var s status
			if err := json.Unmarshal(h.status, &s); err != nil || s.Outputs["url"] != "u" || s.ID != "e2e" || s.Index != 2 {
				t.Errorf("status %s: %v", h.status, err)
			}
		})
	}
}

// A wait makes one Event, and another one once the step waits for something else.
func TestEventsOfAWait(t *testing.T) {
	// Two waits may begin with the same words, such as the names of fifty Rollouts.
	long := strings.Repeat("demo/other (before), ", 50)
	waits := []string{"a", "a", "b", "b", long + "a", long + "b", long + "b", "a"}
	h := newHost(t, &scripted{poll: func(context.Context, Work) (Progress, error) {
		next := waits[0]
		waits = waits[1:]
		return Progress{Phase: Running, Message: next + " at " + fmt.Sprint(len(waits)), Waiting: next}, nil
	}}, `{}`)
	for range 9 {
		h.run()
	}
	want := []string{"it runs", "a at 7", "b at 5", long + "a at 3", long + "b at 2", "a at 0"}
	for i, line := range h.events.lines {
		if i >= len(want) || !strings.HasSuffix(line, want[i]) {
			t.Fatalf("Events %q, want %q", h.events.lines, want)
		}
	}
	if len(h.events.lines) != len(want) {
		t.Errorf("Events %q, want %q", h.events.lines, want)
	}
}

// The controller or the plugin is killed at any point: the work is started again under
// the same key, so that an outside system that honours the key does the work once.
func TestTheKeyOfLostAnswers(t *testing.T) {
	for name, lose := range map[string]func(*host){
		"the first answer is lost":                    func(h *host) { h.runUnstored(); h.restart() },
		"the first answer is lost, the process stays": func(h *host) { h.runUnstored() },
		"a later answer is lost":                      func(h *host) { h.run(); h.runUnstored(); h.restart() },
		"Start has not answered yet": func(h *host) {
			h.kind.start = func(ctx context.Context, _ Work) (Progress, error) {
				<-ctx.Done()
				return Progress{}, &Error{Outcome: MayBeDone, Cause: ctx.Err()}
			}
			h.run()
			h.require(types.PhaseRunning, "waiting for an answer")
			h.kind.mu.Lock()
			h.kind.start = nil
			h.kind.mu.Unlock()
			h.restart()
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, &scripted{}, `{}`)
			lose(h)
			h.kind.poll = after(1, Successful)
			h.until(5)
			h.require(types.PhaseSuccessful)
			for _, w := range h.kind.started {
				if w.Key != h.kind.started[0].Key {
					t.Errorf("keys %s and %s", h.kind.started[0].Key, w.Key)
				}
			}
			if name == "the first answer is lost, the process stays" && len(h.kind.started) != 1 {
				t.Errorf("%d starts in one process, want 1", len(h.kind.started))
			}
		})
	}
}

// A retried canary, another revision, other steps, another pod template and another
// Rollout each have keys of their own.
func TestKeysDiffer(t *testing.T) {
	keys := map[string]string{}
	for name, change := range map[string]func(*v1alpha1.Rollout){
		"as it is":               func(*v1alpha1.Rollout) {},
		"retried after an abort": func(ro *v1alpha1.Rollout) { ro.Status.Conditions[0].LastTransitionTime = metav1.Unix(200, 0) },
		"another revision":       func(ro *v1alpha1.Rollout) { ro.Annotations[revisionAnnotation] = "4" },
		"other steps":            func(ro *v1alpha1.Rollout) { ro.Status.CurrentStepHash = "edited" },
		"another pod template":   func(ro *v1alpha1.Rollout) { ro.Status.CurrentPodHash = "newer" },
		"made anew":              func(ro *v1alpha1.Rollout) { ro.UID = "u-2" },
		"another step":           func(ro *v1alpha1.Rollout) { *ro.Status.CurrentStepIndex = 4 },
	} {
		h := newHost(t, &scripted{}, `{}`)
		change(h.ro)
		h.run()
		key := h.kind.started[0].Key
		if other, ok := keys[key]; ok {
			t.Errorf("%q and %q have the same key", name, other)
		}
		keys[key] = name
	}
}

// onUnknown: Fail starts work at most once, whatever is lost.
func TestAtMostOnce(t *testing.T) {
	for lost := range 4 {
		t.Run(fmt.Sprint(lost), func(t *testing.T) {
			h := newHost(t, &scripted{poll: after(1, Successful)}, `{"onUnknown": "Fail"}`)
			for range lost {
				h.run()
			}
			h.runUnstored()
			h.restart()
			h.until(8)
			if len(h.kind.started) > 1 {
				t.Errorf("%d starts", len(h.kind.started))
			}
			if lost == 1 { // the call that has started the work
				h.require(types.PhaseFailed, "not known")
				if len(h.kind.cancelled) != 1 || h.kind.cancelled[0].Earlier != MayBeDone {
					t.Errorf("cancelled %+v, want the work that may run", h.kind.cancelled)
				}
				return
			}
			h.require(types.PhaseSuccessful)
		})
	}
	h := newHost(t, &scripted{start: func(context.Context, Work) (Progress, error) {
		return Progress{}, &Error{Outcome: MayBeDone, Cause: errors.New("cut")}
	}}, `{"onUnknown": "Fail"}`)
	h.until(5)
	h.require(types.PhaseFailed, "not known", "cut")
	if len(h.kind.started) != 1 {
		t.Errorf("%d starts", len(h.kind.started))
	}
}

// Work that surely was not started is started again.
func TestAStartThatFails(t *testing.T) {
	for _, config := range []string{`{}`, `{"onUnknown": "Fail"}`} {
		refused := 3
		kind := &scripted{poll: after(0, Successful)}
		kind.start = func(context.Context, Work) (Progress, error) {
			if refused--; refused >= 0 {
				return Progress{}, errors.New("connection refused")
			}
			return running("it runs")
		}
		h := newHost(t, kind, config)
		h.until(10)
		h.require(types.PhaseSuccessful)
		if !h.events.has(reasonRetried, "connection refused") {
			t.Errorf("Events %q lack the failure", h.events.lines)
		}
	}
}

// At its timeout a step polls once more, and cancels work that still runs before it
// fails.
func TestTimeout(t *testing.T) {
	t.Run("still running", func(t *testing.T) {
		h := newHost(t, &scripted{}, `{"timeout": "2m"}`)
		begun := h.clock
		h.until(100)
		h.require(types.PhaseFailed, "timed out after 2m0s", "the work was cancelled")
		if took := h.clock.Sub(begun); took < 2*time.Minute || took > 3*time.Minute {
			t.Errorf("it took %s", took)
		}
		if len(h.kind.cancelled) != 1 {
			t.Errorf("%d cancels", len(h.kind.cancelled))
		}
	})
	t.Run("has just ended", func(t *testing.T) {
		h := newHost(t, &scripted{}, `{"timeout": "1m"}`)
		h.until(3)
		h.clock = h.clock.Add(time.Minute)
		h.kind.poll = after(0, Successful)
		h.until(1)
		h.require(types.PhaseSuccessful)
	})
	t.Run("never started", func(t *testing.T) {
		h := newHost(t, &scripted{start: func(context.Context, Work) (Progress, error) {
			return Progress{}, errors.New("connection refused")
		}}, `{"timeout": "1m"}`)
		h.until(20)
		h.require(types.PhaseFailed, "timed out after 1m0s")
		if len(h.kind.cancelled) != 0 {
			t.Errorf("%d cancels of what was never started", len(h.kind.cancelled))
		}
	})
	t.Run("paused for some seconds more than the timeout", func(t *testing.T) {
		h := newHost(t, &scripted{}, `{"timeout": "30s"}`)
		h.run()
		progress(h.ro, h.clock, corev1.ConditionUnknown, "RolloutPaused")
		h.clock = h.clock.Add(25 * time.Second)
		progress(h.ro, h.clock, corev1.ConditionUnknown, "RolloutResumed")
		progress(h.ro, h.clock, corev1.ConditionTrue, "ReplicaSetUpdated") // before the step is called
		h.run()
		h.require(types.PhaseRunning)
	})
	t.Run("paused for an hour", func(t *testing.T) {
		h := newHost(t, &scripted{}, `{"timeout": "5m"}`)
		h.until(3)
		progress(h.ro, h.clock, corev1.ConditionUnknown, "RolloutPaused")
		h.clock = h.clock.Add(time.Hour) // the controller makes no Run for a paused Rollout
		progress(h.ro, h.clock, corev1.ConditionUnknown, "RolloutResumed")
		h.clock = h.clock.Add(5 * time.Second)
		h.run()
		h.require(types.PhaseRunning)
		h.kind.poll = after(0, Successful)
		h.run()
		h.require(types.PhaseSuccessful)
	})
}

// The controller was away for longer than the timeout, and the progress deadline has
// passed, too: this is the last Run.
func TestTheControllerWasAway(t *testing.T) {
	h := newHost(t, &scripted{}, `{}`)
	h.until(3)
	h.clock = h.clock.Add(time.Hour)
	h.run()
	h.require(types.PhaseFailed, "timed out", "the work was cancelled")
}

// A timeout is shorter than the progress deadline, after which the controller makes no
// Run.
func TestTimeoutWithinTheDeadline(t *testing.T) {
	seconds := func(n int32) *int32 { return &n }
	for name, tc := range map[string]struct {
		timeout  string
		deadline *int32
		want     time.Duration
		problem  string
	}{
		"neither":             {"0s", nil, 8 * time.Minute, ""},
		"a short deadline":    {"0s", seconds(300), 4 * time.Minute, ""},
		"a long deadline":     {"0s", seconds(3600), 8 * time.Minute, ""},
		"a long timeout":      {"30m", seconds(3600), 30 * time.Minute, ""},
		"the longest":         {"9m", nil, 9 * time.Minute, ""},
		"too long":            {"9m1s", nil, 0, "progressDeadlineSeconds of 600 allows 9m0s"},
		"no room for a step":  {"0s", seconds(60), 0, "progressDeadlineSeconds is 60"},
		"longer than another": {"10m", seconds(120), 0, "allows 1m0s"},
	} {
		h := newHost(t, &scripted{}, fmt.Sprintf(`{"timeout": %q}`, tc.timeout))
		h.ro.Spec.ProgressDeadlineSeconds = tc.deadline
		h.run()
		if tc.problem != "" {
			h.require(types.PhaseFailed, tc.problem)
			if len(h.kind.started) > 0 {
				t.Errorf("%s: work was started", name)
			}
			continue
		}
		h.require(types.PhaseRunning)
		begun := h.clock
		h.until(1000)
		if took := h.clock.Sub(begun); took < tc.want-time.Minute || took > tc.want+time.Minute {
			t.Errorf("%s: it took %s, want %s", name, took, tc.want)
		}
	}
}

// Each retry is a whole attempt with its own key.
func TestRetries(t *testing.T) {
	h := newHost(t, &scripted{poll: after(0, Failed)}, `{"retries": 2}`)
	h.until(20)
	h.require(types.PhaseFailed, "it has ended")
	keys := map[string]bool{}
	for _, w := range h.kind.started {
		keys[w.Key] = true
	}
	if len(h.kind.started) != 3 || len(keys) != 3 {
		t.Errorf("%d starts under %d keys, want 3 under 3", len(h.kind.started), len(keys))
	}
	if !h.events.has("attempt 1 of 3 has failed") {
		t.Errorf("Events %q lack the failed attempt", h.events.lines)
	}
}

// failurePolicy: Ignore goes on after a failure, and says so.
func TestAnIgnoredFailure(t *testing.T) {
	h := newHost(t, &scripted{poll: after(0, Failed)}, `{"failurePolicy": "Ignore"}`)
	h.until(5)
	h.require(types.PhaseSuccessful, "ignored", "it has ended")
	if !h.events.has(reasonIgnored, "it has ended") {
		t.Errorf("Events %q lack the failure", h.events.lines)
	}
	if result, _ := h.plugin.Abort(h.ro, h.context()); result.Phase != types.PhaseSuccessful || len(h.kind.undone) > 0 {
		t.Errorf("what had failed was undone: %+v", result)
	}
}

// An abort cancels work that runs and undoes work that has succeeded, a full promotion
// cancels work that runs.
func TestAbortAndTerminate(t *testing.T) {
	for name, tc := range map[string]struct {
		runs              int
		abort             bool
		cancelled, undone int
	}{
		"abort before the first Run":       {0, true, 0, 0},
		"abort while running":              {2, true, 1, 0},
		"abort after success":              {9, true, 0, 1},
		"full promotion before the Run":    {0, false, 0, 0},
		"full promotion while running":     {2, false, 1, 0},
		"full promotion after its success": {9, false, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, &scripted{poll: after(3, Successful)}, `{}`)
			h.until(tc.runs)
			h.restart() // the controller may have been killed
			call := h.plugin.Terminate
			if tc.abort {
				call = h.plugin.Abort
			}
			result, err := call(h.ro, h.context())
			if err.HasError() || result.Phase != types.PhaseSuccessful {
				t.Errorf("%+v, %v", result, err)
			}
			if len(h.kind.cancelled) != tc.cancelled || len(h.kind.undone) != tc.undone {
				t.Errorf("%d cancelled and %d undone, want %d and %d", len(h.kind.cancelled), len(h.kind.undone), tc.cancelled, tc.undone)
			}
			for _, w := range append(h.kind.cancelled, h.kind.undone...) {
				if w.Key != h.kind.started[0].Key {
					t.Errorf("key %s, want that of the Start, %s", w.Key, h.kind.started[0].Key)
				}
			}
		})
	}
}

// An abort that comes before Start has answered waits for it, and cancels what it has
// begun; work that has succeeded by then is undone.
func TestAbortDuringStart(t *testing.T) {
	for name, tc := range map[string]struct {
		ends              Progress
		err               error
		cancelled, undone int
	}{
		"it runs":           {Progress{Phase: Running, State: json.RawMessage(`"run 7"`)}, nil, 1, 0},
		"it has succeeded":  {Progress{Phase: Successful}, nil, 0, 1},
		"it has failed":     {Progress{Phase: Failed}, nil, 0, 0},
		"nobody knows":      {Progress{}, &Error{Outcome: MayBeDone, Cause: errors.New("cut")}, 1, 0},
		"it was not begun":  {Progress{}, errors.New("refused"), 0, 0},
		"it is told to end": {Progress{}, context.Canceled, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			kind := &scripted{start: func(ctx context.Context, _ Work) (Progress, error) {
				<-ctx.Done()
				return tc.ends, tc.err
			}}
			h := newHost(t, kind, `{}`)
			h.run()
			h.require(types.PhaseRunning, "waiting for an answer")
			result, _ := h.plugin.Abort(h.ro, h.context())
			if result.Phase != types.PhaseSuccessful {
				t.Errorf("%+v", result)
			}
			if len(kind.cancelled) != tc.cancelled || len(kind.undone) != tc.undone {
				t.Errorf("%d cancelled and %d undone, want %d and %d", len(kind.cancelled), len(kind.undone), tc.cancelled, tc.undone)
			}
			if name == "it runs" && string(kind.cancelled[0].State) != `"run 7"` {
				t.Errorf("cancelled with state %s", kind.cancelled[0].State)
			}
		})
	}
}

// A Cancel that fails is tried again in the background, which the answer to the Abort says,
// and an Event how it ends. A second Abort joins it, and finds that it has succeeded.
func TestACancelThatFails(t *testing.T) {
	refused := 2
	done := make(chan struct{})
	kind := &scripted{cancel: func(Work) error {
		if refused--; refused >= 0 {
			return errors.New("connection refused")
		}
		close(done)
		return nil
	}}
	h := newHost(t, kind, `{}`)
	h.run()
	for range 2 {
		result, _ := h.plugin.Abort(h.ro, h.context())
		if result.Phase != types.PhaseSuccessful || !strings.Contains(result.Message, "connection refused; an Event tells how it ends") {
			t.Errorf("%+v", result)
		}
	}
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("the work was not cancelled within a minute")
	}
	eventually(t, "an Event tells it", func() bool { return h.events.has(reasonCleanedUp, "the work was cancelled") })
	if result := h.abort(); result.Message != "step 3: the work was cancelled" || len(kind.cancelled) != 3 {
		t.Errorf("a third Abort: %+v after %d cancels", result, len(kind.cancelled))
	}
}

// Outputs that are too large are left out with a Warning, and the status stays small.
func TestOutputsAreBounded(t *testing.T) {
	h := newHost(t, &scripted{poll: func(context.Context, Work) (Progress, error) {
		outputs := map[string]string{"small": "x", "escapes": strings.Repeat("\x01", 300), "large": strings.Repeat("x", 2000)}
		for i := range 30 {
			outputs[fmt.Sprintf("z%02d", i)] = strings.Repeat("y", 200)
		}
		return Progress{Phase: Successful, Outputs: outputs}, nil
	}}, `{}`)
	h.until(3)
	h.require(types.PhaseSuccessful)
	var s status
	if err := json.Unmarshal(h.status, &s); err != nil || s.Outputs["small"] != "x" || s.Outputs["large"] != "" || s.Outputs["escapes"] != "" || s.Outputs["z00"] == "" {
		t.Errorf("status %s: %v", h.status, err)
	}
	if !h.events.has(reasonOutput, "large", "escapes", "z29") {
		t.Errorf("Events %q lack the dropped outputs", h.events.lines)
	}
}

// Two steps of a canary cannot have the same id, and a later step gets the outputs of
// earlier ones.
func TestIDsAndOutputsOfOtherSteps(t *testing.T) {
	first := newHost(t, &scripted{poll: after(0, Successful)}, `{"id": "build"}`)
	first.until(3)
	for id, want := range map[string]types.StepPhase{"build": types.PhaseFailed, "test": types.PhaseRunning} {
		h := newHost(t, &scripted{}, fmt.Sprintf(`{"id": %q}`, id))
		*h.ro.Status.CurrentStepIndex = 5
		h.ro.Status.Canary.StepPluginStatuses = []v1alpha1.StepPluginStatus{
			{Index: 2, Name: "acme/step", Operation: v1alpha1.StepPluginOperationRun, Status: first.status},
			{Index: 3, Name: "other/step", Operation: v1alpha1.StepPluginOperationRun, Status: json.RawMessage(`{"theirs": true}`)},
		}
		h.run()
		h.require(want)
		if id == "test" {
			steps := Scope(h.kind.started[0], nil)["steps"].(map[string]any)
			if got := fmt.Sprint(steps["build"]); got != "map[outputs:map[url:u]]" {
				t.Errorf("outputs of the step before: %s", got)
			}
		}
	}
}

// An invalid registration, an invalid configuration, and a status that this plugin has
// not written fail the step with a message, and start nothing.
func TestWhatIsWrong(t *testing.T) {
	for config, want := range map[string]string{
		`{"id": "7"}`:                                     `id "7"`,
		`{"interval": "10s"}`:                             "interval 10s",
		`{"timeout": "-1s"}`:                              "timeout -1s",
		`{"retries": 11}`:                                 "retries 11",
		`{"failurePolicy": "Retry"}`:                      `failurePolicy "Retry"`,
		`{"onUnknown": "Ask"}`:                            `onUnknown "Ask"`,
		`{"secretKeyRef": {"namespace": "x"}, "id": "a"}`: "secretKeyRef.namespace",
	} {
		h := newHost(t, &scripted{}, config)
		h.run()
		h.require(types.PhaseFailed, want)
		if len(h.kind.started) > 0 {
			t.Errorf("%s: work was started", config)
		}
	}
	h := newHost(t, &scripted{}, `{}`)
	h.status = json.RawMessage(`{"theirs": true}`)
	h.run()
	h.require(types.PhaseFailed, "not written by this plugin")
	h = newHost(t, &scripted{}, `{}`)
	h.plugin = New(Options{Problem: errors.New(`unknown kind "htp"`), Events: h.events, Logger: hclog.NewNullLogger()})
	h.run()
	h.require(types.PhaseFailed, `unknown kind "htp"`)
}

// A panic in a kind is the error of its operation.
func TestAPanicOfAKind(t *testing.T) {
	kind := &scripted{start: func(context.Context, Work) (Progress, error) { panic("oh") }}
	h := newHost(t, kind, `{"timeout": "1m"}`)
	h.run()
	h.require(types.PhaseRunning, "a bug in the plugin")
	h.until(20)
	h.require(types.PhaseFailed, "a bug in the plugin")
}
