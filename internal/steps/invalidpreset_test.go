package steps_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/hashicorp/go-hclog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// counted is a kind that counts what its steps do.
type counted struct {
	polls, undone atomic.Int32
	parsed        atomic.Value
}

func (k *counted) Name() string { return "counted" }
func (k *counted) Parse(source steps.Source) (steps.Step, error) {
	k.parsed.Store(string(source.Config))
	return &countedStep{k}, nil
}

type countedStep struct{ *counted }

func (*countedStep) Repeatable() bool       { return false }
func (*countedStep) Finds() bool            { return false }
func (*countedStep) Left(steps.Work) string { return "" }
func (*countedStep) Start(context.Context, steps.Work) (steps.Progress, error) {
	return steps.Progress{Phase: steps.Running}, nil
}
func (s *countedStep) Poll(context.Context, steps.Work) (steps.Progress, error) {
	s.polls.Add(1)
	return steps.Progress{Phase: steps.Successful}, nil
}
func (s *countedStep) Cancel(context.Context, steps.Work) error { return nil }
func (s *countedStep) Undo(context.Context, steps.Work) error   { s.undone.Add(1); return nil }

type presets struct {
	preset *steps.Preset
	err    error
}

func (p *presets) Preset(context.Context, string) (*steps.Preset, error) {
	if p.err != nil {
		return nil, &steps.PresetError{Cause: p.err}
	}
	return p.preset, nil
}

type noEvents struct{}

func (noEvents) Warn(*v1alpha1.Rollout, string, string, string) {}
func (noEvents) Note(*v1alpha1.Rollout, string, string)         {}

// A kind gets an object as configuration even if the Rollout has none, with or without a
// preset.
func TestAKindGetsAnObject(t *testing.T) {
	for name, source := range map[string]steps.PresetSource{"no preset": nil, "an empty preset": &presets{preset: &steps.Preset{}}} {
		t.Run(name, func(t *testing.T) {
			for _, config := range []string{"", "{}"} {
				kind := &counted{}
				plugin := steps.New(steps.Options{Kind: kind, Presets: source, Events: noEvents{}, Logger: hclog.NewNullLogger()})
				result, _ := plugin.Run(&v1alpha1.Rollout{}, &types.RpcStepContext{Config: json.RawMessage(config)})
				if got := kind.parsed.Load(); got != "{}" {
					t.Errorf("config %q is parsed as %q: %+v", config, got, result)
				}
			}
			plugin := steps.New(steps.Options{Kind: &counted{}, Presets: source, Events: noEvents{}, Logger: hclog.NewNullLogger()})
			if result, _ := plugin.Run(&v1alpha1.Rollout{}, &types.RpcStepContext{Config: json.RawMessage(`[]`)}); !strings.Contains(result.Message, "config: want an object, not a list") {
				t.Errorf("a list: %+v", result)
			}
		})
	}
}

// Steps that begin with a preset that has become invalid wait. Steps that were
// started before go on with its last valid version, to their end and through Undo.
func TestAPresetThatBecomesWrong(t *testing.T) {
	source := &presets{preset: &steps.Preset{}}
	kind := &counted{}
	plugin := steps.New(steps.Options{Kind: kind, Presets: source, Events: noEvents{}, Logger: hclog.NewNullLogger()})
	ro := &v1alpha1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "app", UID: "u-1"}}
	run := func(status json.RawMessage) types.RpcStepResult {
		result, err := plugin.Run(ro, &types.RpcStepContext{PluginName: "acme/x", Status: status})
		if err.HasError() {
			t.Fatal(err)
		}
		return result
	}
	running := run(nil)
	if running.Phase != types.PhaseRunning {
		t.Fatalf("Run = %+v", running)
	}
	source.preset, source.err = nil, errors.New(`unknown key "default"`)
	ro.UID = "u-2" // another Rollout
	if result := run(nil); result.Phase != types.PhaseRunning || !strings.Contains(result.Message, `unknown key "default"`) {
		t.Errorf("a step that begins with a wrong preset: %+v", result)
	}
	ro.UID = "u-1"
	done := run(running.Status)
	if done.Phase != types.PhaseSuccessful || kind.polls.Load() != 1 {
		t.Errorf("a step that runs: %+v after %d polls", done, kind.polls.Load())
	}
	undone, err := plugin.Abort(ro, &types.RpcStepContext{PluginName: "acme/x", Status: done.Status})
	if err.HasError() || undone.Phase != types.PhaseSuccessful || kind.undone.Load() != 1 {
		t.Errorf("Abort = %+v, %v", undone, err)
	}
	source.err = errors.New("wrong from the beginning")
	plugin = steps.New(steps.Options{Kind: kind, Presets: source, Events: noEvents{}, Logger: hclog.NewNullLogger()})
	if result := run(running.Status); result.Phase != types.PhaseRunning || !strings.Contains(result.Message, "wrong from the beginning") {
		t.Errorf("a step that runs, without a preset that was right: %+v", result)
	}
}
