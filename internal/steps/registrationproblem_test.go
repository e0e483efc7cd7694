package steps

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/hashicorp/go-hclog"
)

// named is a kind of another name.
type named struct{ *scripted }

func (named) Name() string { return "named" }

// If the registration becomes invalid, or one of another kind, while a step runs, the
// step waits until it is right again or the progress deadline is near. An abort says what
// is left.
func TestARegistrationThatBecomesWrong(t *testing.T) {
	for name, tc := range map[string]struct {
		problem Options
		want    string
	}{
		"a flag":       {Options{Problem: errors.New("unknown flag: --alow-host")}, "--alow-host"},
		"another kind": {Options{Kind: named{&scripted{}}}, `kind "scripted", and is one of kind "named"`},
	} {
		t.Run(name, func(t *testing.T) {
			breaks := func(h *host) {
				tc.problem.Events, tc.problem.Logger = h.events, hclog.NewNullLogger()
				h.plugin = New(tc.problem)
				h.plugin.now = func() time.Time { return time.Unix(0, h.now.Load()) }
			}
			h := newHost(t, &scripted{}, `{}`)
			h.until(2)
			breaks(h)
			h.run()
			h.require(types.PhaseRunning, tc.want)
			h.restart()
			h.kind.poll = after(0, Successful)
			h.run()
			h.require(types.PhaseSuccessful)
			if len(h.kind.started) != 1 {
				t.Errorf("%d starts", len(h.kind.started))
			}

			h = newHost(t, &scripted{}, `{}`)
			h.until(2)
			breaks(h)
			begun := h.clock
			h.until(100)
			h.require(types.PhaseFailed, "timed out after ", tc.want)
			if took := h.clock.Sub(begun); took > 10*time.Minute || !h.events.has(reasonLeft, tc.want) || len(h.last.Status) == 0 {
				t.Errorf("after %s, status %s, Events %q", took, h.last.Status, h.events.lines)
			}

			h = newHost(t, &scripted{}, `{}`)
			h.until(2)
			breaks(h)
			if result := h.abort(); result.Phase != types.PhaseFailed || !h.events.has(reasonLeft, tc.want) {
				t.Errorf("Abort: %+v, Events %q", result, h.events.lines)
			}

			h = newHost(t, &scripted{}, `{}`)
			breaks(h)
			if h.run(); name == "a flag" {
				h.require(types.PhaseFailed, tc.want)
			}
		})
	}
}

type unreadPreset struct{}

func (unreadPreset) Preset(context.Context, string) (*Preset, error) {
	return nil, &PresetError{Cause: errors.New("preset ConfigMap argo-rollouts/e2e does not exist")}
}

// A step whose preset cannot be read fails before a short progress deadline, too.
func TestAnUnreadPresetAndAShortDeadline(t *testing.T) {
	h := newHost(t, &scripted{}, `{}`)
	h.plugin.opts.Presets = unreadPreset{}
	deadline := int32(300)
	h.ro.Spec.ProgressDeadlineSeconds = &deadline
	begun := h.clock
	h.until(100)
	h.require(types.PhaseFailed, "does not exist")
	if took := h.clock.Sub(begun); took > 5*time.Minute {
		t.Errorf("it took %s, after which the controller makes no Run", took)
	}
}

// A former version of the preset is used only for a status that was written for an
// attempt of this process: an admin may have closed a hole in the preset since.
func TestAForgedStatusAndAFormerPreset(t *testing.T) {
	source := &presets{&Preset{}}
	h := newHost(t, &scripted{}, `{"timeout": "5m"}`)
	h.plugin.opts.Presets = source
	h.until(2)
	source.preset = &Preset{Locked: []string{"*"}}
	for name, forge := range map[string]func(*host){
		"of another Rollout":    func(h *host) { h.ro.UID = "u-2" },
		"another configuration": func(h *host) { h.config = `{"timeout": "6m"}` },
	} {
		forged := *h
		forged.ro = h.ro.DeepCopy()
		forge(&forged)
		before := len(h.kind.cancelled) + int(h.kind.polled.Load())
		forged.run()
		forged.require(types.PhaseRunning, "the preset lets a Rollout set nothing")
		if name == "of another Rollout" {
			forged.abort()
		}
		if after := len(h.kind.cancelled) + int(h.kind.polled.Load()); after != before {
			t.Errorf("%s: %d operations under the preset of before", name, after-before)
		}
	}
	h.run()
	h.require(types.PhaseRunning)
	if h.abort(); len(h.kind.cancelled) != 1 {
		t.Errorf("%d cancels of the attempt that began under the preset of before", len(h.kind.cancelled))
	}
}
