package steps

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
)

// A canary is retried before the interval since its first step's last Run has passed.
// Argo Rollouts then makes no Run ("skipping plugin Run due to backoff"), stores the old
// status again, and removes that of the Abort. Another process of the plugin still knows
// that the status is not of this canary.
func TestRetriedWithinTheInterval(t *testing.T) {
	h := newHost(t, &scripted{}, `{"interval": "5m"}`)
	*h.ro.Status.CurrentStepIndex = 0
	progress(h.ro, h.clock, corev1.ConditionTrue, "ReplicaSetUpdated")
	h.until(2)
	h.kind.poll = after(0, Successful)
	h.abort() // the work has just succeeded, and is undone
	if len(h.kind.undone) != 1 {
		t.Fatalf("%d undone", len(h.kind.undone))
	}
	progress(h.ro, h.clock.Add(-time.Minute), corev1.ConditionFalse, "RolloutAborted")
	progress(h.ro, h.clock.Add(-time.Second), corev1.ConditionUnknown, "RolloutRetry")
	// Only the status of the Run is left (rollout/stepplugin.go, cleanStatusForRetry and
	// updateStepPluginStatus).
	h.ro.Status.Canary.StepPluginStatuses = []v1alpha1.StepPluginStatus{{Name: "acme/step", Operation: v1alpha1.StepPluginOperationRun, Status: h.status}}
	h.restart()
	h.kind.poll = func(context.Context, Work) (Progress, error) {
		return Progress{Phase: Successful, Message: "passed"}, nil
	}
	h.run()
	eventually(t, "the clean-up ends", func() bool { return h.plugin.attempts.cleanupOf(h.ro.UID, 0) == nil })
	h.ro.Status.Canary.StepPluginStatuses = nil
	h.run()
	if len(h.kind.starts()) != 2 {
		t.Errorf("the retried canary's step is %s (%s) with %d starts, want one of its own", h.last.Phase, h.last.Message, len(h.kind.starts()))
	}
}

// The progress deadline has passed while no controller ran. The next Run is the last one,
// so it does not answer that the step waits.
func TestARunAfterTheProgressDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, &scripted{poll: slowly(func() (Progress, error) { return running("it runs") })}, `{}`)
		progress(h.ro, h.clock, corev1.ConditionTrue, "ReplicaSetUpdated")
		h.run()
		h.clock = h.clock.Add(12 * time.Minute)
		h.restart()
		h.run()
		h.require(types.PhaseFailed, "timed out after 8m0s")
		time.Sleep(time.Minute)
	})
}

// The answer that a Start was refused is lost, as the controller could not store it. Even
// with onUnknown: Fail the work is started again, because it surely was not started.
func TestALostRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refusals := 1
		kind := &scripted{poll: after(0, Successful), start: slowly(func() (Progress, error) {
			if refusals--; refusals >= 0 {
				return Progress{}, errors.New("connection refused")
			}
			return running("it runs")
		})}
		h := newHost(t, kind, `{"onUnknown": "Fail"}`)
		h.run() // about to start
		h.run() // waiting for an answer
		time.Sleep(16 * time.Second)
		h.runUnstored()
		h.require(types.PhaseRunning, "connection refused")
		h.untilIdle()
		h.require(types.PhaseSuccessful)
	})
}

// A canary is aborted after its work has succeeded, and the outside system gives an error
// first. The work is undone once the outside system answers.
func TestAnAbortWhoseLookFails(t *testing.T) {
	var looks atomic.Int32
	h := newHost(t, &scripted{}, `{}`)
	h.run()
	h.run()
	h.kind.poll = func(context.Context, Work) (Progress, error) {
		if looks.Add(1) == 1 {
			return Progress{}, errors.New("503")
		}
		return Progress{Phase: Successful}, nil
	}
	h.abort()
	undone := func() bool {
		h.kind.mu.Lock()
		defer h.kind.mu.Unlock()
		return len(h.kind.undone) == 1
	}
	eventually(t, "the work is undone", undone)
}

// A forged status starts no work under the preset as it was before an admin locked it.
func TestAFormerPresetStartsNothing(t *testing.T) {
	source := &presets{&Preset{}}
	h := newHost(t, &scripted{poll: after(0, Successful)}, `{"timeout": "5m"}`)
	h.plugin.opts.Presets = source
	h.run()
	h.run()
	h.require(types.PhaseSuccessful)
	var s map[string]any
	if err := json.Unmarshal(h.status, &s); err != nil {
		t.Fatal(err)
	}
	source.preset = &Preset{Locked: []string{"*"}}
	s["stage"] = "New"
	h.status, _ = json.Marshal(s)
	h.run()
	if n := len(h.kind.starts()); n != 1 {
		t.Errorf("%d starts, one under the preset of before: %s %s", n, h.last.Phase, h.last.Message)
	}
}

// A step that has announced its Start may have been started before the registration is
// found to be invalid: it fails, and an Event tells what may be left.
func TestAnAnnouncedStepAndAWrongRegistration(t *testing.T) {
	h := newHost(t, &scripted{}, `{"onUnknown": "Fail"}`)
	h.run()
	h.runUnstored() // starts; killed before the answer is stored
	if len(h.kind.starts()) != 1 {
		t.Fatal("not started")
	}
	h.plugin = New(Options{Problem: errors.New("unknown flag: --alow-host"), Events: h.events, Logger: hclog.NewNullLogger()})
	h.plugin.now = func() time.Time { return time.Unix(0, h.now.Load()) }
	h.run()
	h.require(types.PhaseRunning, "--alow-host")
	h.until(100)
	h.require(types.PhaseFailed)
	if !h.events.has(reasonLeft) {
		t.Errorf("no Event tells that work may be left: %s", h.last.Message)
	}
}

// A step with onUnknown: Fail that has announced its Start goes on after its Rollout was
// paused.
func TestAnAnnouncedStepThatWasPaused(t *testing.T) {
	h := newHost(t, &scripted{}, `{"onUnknown": "Fail"}`)
	h.run()
	progress(h.ro, h.clock, corev1.ConditionUnknown, "RolloutPaused")
	h.clock = h.clock.Add(2 * time.Hour)
	progress(h.ro, h.clock, corev1.ConditionUnknown, "RolloutResumed")
	h.run()
	h.require(types.PhaseRunning)
}

// If a Cancel does not end in time, an Event says what may be left.
func TestACancelThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, &scripted{cancel: func(Work) error { time.Sleep(3 * time.Hour); return nil }}, `{"timeout": "2m"}`)
		h.run()
		h.abort()
		time.Sleep(time.Hour)
		if !h.events.has(reasonLeft) {
			t.Errorf("after an hour no Event says what is left: %q", h.events.lines)
		}
		time.Sleep(3 * time.Hour)
	})
}

// sometimesUnread is a preset that cannot be read at first.
type sometimesUnread struct{ unread int }

func (p *sometimesUnread) Preset(ctx context.Context, name string) (*Preset, error) {
	if p.unread--; p.unread >= 0 {
		return unreadPreset{}.Preset(ctx, name)
	}
	return &Preset{}, nil
}

// The process is killed after a Start whose answer is lost. The next process cannot read
// the preset at its first call. With onUnknown: Fail it makes no second Start, and an
// abort cancels the work.
func TestAtMostOnceWhileThePresetIsUnread(t *testing.T) {
	killed := func(config string) *host {
		h := newHost(t, &scripted{}, config)
		for len(h.kind.starts()) == 0 {
			h.status = h.last.Status
			h.runUnstored()
		}
		if config == `{}` { // a first Start was refused
			h.status = json.RawMessage(`{"kind":"scripted","id":"2","key":"0123456789abcdef0123456789abcdef","index":2,"attempt":1,"stage":"New","process":"before"}`)
		}
		h.restart()
		h.plugin.opts.Presets = &sometimesUnread{unread: 1}
		h.run()
		h.require(types.PhaseRunning, "its preset cannot be used, retrying")
		return h
	}
	h := killed(`{"onUnknown": "Fail"}`)
	h.run()
	if n := len(h.kind.starts()); n != 1 {
		t.Errorf("%d starts with onUnknown: Fail", n)
	}
	for _, config := range []string{`{}`, `{"onUnknown": "Fail"}`} {
		h := killed(config)
		if result := h.abort(); len(h.kind.cancelled) != 1 {
			t.Errorf("%s: %d cancels: %s", config, len(h.kind.cancelled), result.Message)
		}
	}
}
