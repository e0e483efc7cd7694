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

func TestStepsMeetAtABarrier(t *testing.T) {
	type steps = []v1alpha1.CanaryStep
	tests := []struct {
		name    string
		own     steps
		index   int32
		preset  string
		others  steps
		barrier string
		want    int // -1: the other Rollout does not have it
	}{
		{"the first of a name the first", steps{weight(1), check("")}, 1, "", steps{check(""), check("")}, "acme/check-others#1", 0},
		{"the second the second", steps{check(""), weight(1), check("")}, 2, "", steps{check(""), weight(1), weight(2), check("")}, "acme/check-others#2", 3},
		{"not where there is no second", steps{check(""), check("")}, 1, "", steps{check("")}, "acme/check-others#2", -1},
		{"not at a plugin of another name", steps{check("")}, 0, "", steps{other("acme/e2e", "")}, "acme/check-others#1", -1},
		{"with other plugins between", steps{other("acme/e2e", ""), check("")}, 1, "", steps{other("acme/e2e", ""), weight(1), check("")}, "acme/check-others#1", 2},
		{"by a name of its own", steps{check(`{"barrier": "half"}`)}, 0, "", steps{check(""), check(`{"barrier": "half"}`)}, "half#1", 1},
		{"by a name in another registration", steps{check(`{"barrier": "half"}`)}, 0, "", steps{other("acme/regions", `{"barrier": "half"}`)}, "half#1", 0},
		{"a named one not by the registered name", steps{check(`{"barrier": "half"}`)}, 0, "", steps{check("")}, "half#1", -1},
		{"a named one is not counted among those without", steps{check(`{"barrier": "half"}`), check("")}, 1, "", steps{check("")}, "acme/check-others#1", 0},
		{"the second of a name of its own", steps{check(`{"barrier": "half"}`), check(`{"barrier": "half"}`)}, 1, "", steps{check(`{"barrier": "half"}`), check(""), check(`{"barrier": "half"}`)}, "half#2", 2},
		{"by the preset's name", steps{check("")}, 0, "regions", steps{weight(1), check("")}, "regions#1", 1},
		{"by the preset's name with one that says it", steps{check("")}, 0, "regions", steps{other("acme/regions", `{"barrier": "regions"}`), check("")}, "regions#1", 0},
		{"by a name that says what the preset's is", steps{check(`{"barrier": "regions"}`)}, 0, "regions", steps{weight(1), check("")}, "regions#1", 1},
		{"the second of a preset's name", steps{check(""), check(`{"barrier": "regions"}`)}, 1, "regions", steps{check(`{"barrier": "regions"}`), weight(1), check("")}, "regions#2", 2},
		{"not where the configuration of another kind is no object", steps{check("")}, 0, "", steps{other("acme/e2e", `["barrier"]`), other("acme/e2e", `{"barrier": 5}`)}, "acme/check-others#1", -1},
		{"not by a name that is refused", steps{check("")}, 0, "", steps{other("acme/e2e", `{"barrier": "acme/check-others"}`)}, "acme/check-others#1", -1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b, err := barrierOf(canary("a", test.index, withSteps(test.own...)), plugin, test.index, test.preset)
			if err != nil || b.String() != test.barrier {
				t.Fatalf("barrier %s (%v), want %s", b, err, test.barrier)
			}
			got, ok := b.in(read(t, canary("b", 0, withSteps(test.others...))).Places)
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
		if b, err := barrierOf(ro, plugin, 1, ""); err == nil {
			t.Errorf("barrier %s without a step", b)
		}
	}
}
