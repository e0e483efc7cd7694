package rolloutsstep

import (
	"encoding/json"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
)

// other is a step of a plugin of another name.
func other(plugin, config string) v1alpha1.CanaryStep {
	return v1alpha1.CanaryStep{Plugin: &v1alpha1.PluginStep{Name: plugin, Config: json.RawMessage(config)}}
}

// shared is a step of the registration for all kinds.
func shared(config string) v1alpha1.CanaryStep { return other("kedify/step", config) }

func TestStepsMeetAtABarrier(t *testing.T) {
	type steps = []v1alpha1.CanaryStep
	defaults := json.RawMessage(`{"barrier": "regions"}`)
	ownPreset := naming{defaults: defaults}
	presets := naming{defaults: json.RawMessage(`{}`), presets: func(name string) (json.RawMessage, bool) {
		section, known := map[string]json.RawMessage{
			"others": json.RawMessage(`{}`), "named": defaults, "smoke": nil, "quick": json.RawMessage("null"),
		}[name]
		return section, known
	}}
	half := `{"rollouts": {"barrier": "half"}}`
	tests := []struct {
		name    string
		own     steps
		index   int32
		names   naming
		others  steps
		barrier string
		want    int // -1: the other Rollout does not have it
	}{
		{"the first of a name the first", steps{weight(1), check("")}, 1, naming{}, steps{check(""), check("")}, "acme/check-others#1", 0},
		{"the second the second", steps{check(""), weight(1), check("")}, 2, naming{}, steps{check(""), weight(1), weight(2), check("")}, "acme/check-others#2", 3},
		{"not where there is no second", steps{check(""), check("")}, 1, naming{}, steps{check("")}, "acme/check-others#2", -1},
		{"not at a plugin of another name", steps{check("")}, 0, naming{}, steps{other("acme/e2e", "")}, "acme/check-others#1", -1},
		{"with other plugins between", steps{other("acme/e2e", ""), check("")}, 1, naming{}, steps{other("acme/e2e", ""), weight(1), check("")}, "acme/check-others#1", 2},
		{"by a name of its own", steps{check(`{"barrier": "half"}`)}, 0, naming{}, steps{check(""), check(`{"barrier": "half"}`)}, "half#1", 1},
		{"by a name in another registration", steps{check(`{"barrier": "half"}`)}, 0, naming{}, steps{other("acme/regions", `{"barrier": "half"}`)}, "half#1", 0},
		{"a named one not by the registered name", steps{check(`{"barrier": "half"}`)}, 0, naming{}, steps{check("")}, "half#1", -1},
		{"a named one is not counted among those without", steps{check(`{"barrier": "half"}`), check("")}, 1, naming{}, steps{check("")}, "acme/check-others#1", 0},
		{"the second of a name of its own", steps{check(`{"barrier": "half"}`), check(`{"barrier": "half"}`)}, 1, naming{}, steps{check(`{"barrier": "half"}`), check(""), check(`{"barrier": "half"}`)}, "half#2", 2},
		{"by the preset's name", steps{check("")}, 0, ownPreset, steps{weight(1), check("")}, "regions#1", 1},
		{"by the preset's name with one that says it", steps{check("")}, 0, ownPreset, steps{other("acme/regions", `{"barrier": "regions"}`), check("")}, "regions#1", 0},
		{"by a name that says what the preset's is", steps{check(`{"barrier": "regions"}`)}, 0, ownPreset, steps{weight(1), check("")}, "regions#1", 1},
		{"the second of a preset's name", steps{check(""), check(`{"barrier": "regions"}`)}, 1, ownPreset, steps{check(`{"barrier": "regions"}`), weight(1), check("")}, "regions#2", 2},
		{"not where the configuration of another kind is no object", steps{check("")}, 0, naming{}, steps{other("acme/e2e", `["barrier"]`), other("acme/e2e", `{"barrier": 5}`)}, "acme/check-others#1", -1},
		{"not by a name that is refused", steps{check("")}, 0, naming{}, steps{other("acme/e2e", `{"barrier": "acme/check-others"}`)}, "acme/check-others#1", -1},
		{"with the kind as a key in a registration of its own", steps{check(half)}, 0, naming{}, steps{check(`{"rollouts": {}}`), check(half)}, "half#1", 1},

		{"only where a step waits for Rollouts", steps{shared(`{"rollouts": {}}`)}, 0, presets, steps{shared(`{"http": {}}`), shared(`{"job": {}}`), shared(`{"rollouts": {}}`)}, "kedify/step#1", 2},
		{"and no other kind counts", steps{shared(`{"http": {}}`), shared(`{"use": "smoke"}`), shared(`{"rollouts": {}}`)}, 2, presets, steps{shared(`{"rollouts": {}}`)}, "kedify/step#1", 0},
		{"with one of a registration of its own", steps{shared(half)}, 0, presets, steps{check(""), check(`{"barrier": "half"}`)}, "half#1", 1},
		{"and the other way round", steps{check(`{"barrier": "half"}`)}, 0, naming{}, steps{shared(`{"http": {}}`), shared(half)}, "half#1", 1},
		{"by the name of a preset", steps{shared(`{"use": "others"}`)}, 0, presets, steps{shared(`{"rollouts": {}}`), shared(`{"use": "smoke"}`), shared(`{"use": "others", "rollouts": {"min": 0}}`)}, "others#1", 2},
		{"by the barrier of a preset", steps{shared(`{"use": "named"}`)}, 0, naming{presets: presets.presets, defaults: defaults}, steps{shared(`{"use": "others"}`), shared(`{"use": "named"}`)}, "regions#1", 1},
		{"by the barrier of another preset", steps{shared(`{"rollouts": {"barrier": "regions"}}`)}, 0, presets, steps{shared(`{"use": "named"}`)}, "regions#1", 0},
		{"by its own name rather than the preset's", steps{shared(half)}, 0, presets, steps{shared(`{"use": "named", "rollouts": {"barrier": "half"}}`)}, "half#1", 0},
		{"with a preset that leaves the kind to the Rollout", steps{shared(`{"use": "quick", "rollouts": {}}`)}, 0, presets, steps{shared(`{"use": "quick", "http": {}}`), shared(`{"use": "quick", "rollouts": {}}`)}, "quick#1", 1},
		{"with its own preset that is gone", steps{shared(`{"use": "gone"}`)}, 0, naming{presets: presets.presets, defaults: defaults}, steps{shared(`{"use": "others"}`), shared(`{"use": "gone"}`)}, "regions#1", 1},
		{"where another's preset is gone, by its name", steps{shared(`{"rollouts": {"barrier": "gone"}}`)}, 0, presets, steps{shared(`{"use": "gone"}`)}, "gone#1", 0},
		{"not at another kind whose preset is gone", steps{shared(`{"rollouts": {"barrier": "gone"}}`)}, 0, presets, steps{shared(`{"use": "gone", "http": {}}`), shared(`{"use": "gone", "job": {}}`), shared(`{"use": "gone", "resource": {}}`), shared(`{"use": "gone"}`)}, "gone#1", 3},
		{"past one whose preset is gone", steps{shared(`{"use": "gone"}`), shared(half)}, 1, presets, steps{shared(`{"use": "gone"}`), shared(half)}, "half#1", 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b, err := barrierOf(canary("a", test.index, withSteps(test.own...)), test.index, test.names)
			if err != nil || b.String() != test.barrier {
				t.Fatalf("barrier %s (%v), want %s", b, err, test.barrier)
			}
			got, ok := b.in(read(t, canary("b", 0, withSteps(test.others...))).PluginSteps)
			if !ok {
				got = -1
			}
			if got != test.want {
				t.Errorf("step %d, want %d", got, test.want)
			}
		})
	}
}

func TestABarrierNeedsItsStep(t *testing.T) {
	for _, ro := range []*v1alpha1.Rollout{canary("a", 1, withSteps(weight(1), weight(2))), canary("a", 1, withSteps(weight(1))), canary("a", 1, blueGreen)} {
		if b, err := barrierOf(ro, 1, naming{}); err == nil {
			t.Errorf("barrier %s without a step", b)
		}
	}
}
