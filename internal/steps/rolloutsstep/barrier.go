package rolloutsstep

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
)

// PluginStep is a plugin step of a Rollout, of any kind.
type PluginStep struct {
	// Index is the index of the step, from 0.
	Index int
	// Plugin is the plugin's registered name, Preset the preset that the step uses; empty for
	// none.
	Plugin, Preset string
	// Rollouts is true if the step's own configuration shows that it waits for other Rollouts,
	// OtherKind if it shows that it does something else.
	Rollouts, OtherKind bool
	// Barrier is the barrier that its own configuration names; empty if it names none.
	Barrier string
}

// readPluginStep reads a step. Its configuration may be that of another kind of step, or wrong.
func readPluginStep(index int, step *v1alpha1.PluginStep) PluginStep {
	var keys struct {
		Use      any             `json:"use"`
		Rollouts json.RawMessage `json:"rollouts"`
		HTTP     json.RawMessage `json:"http"`
		Job      json.RawMessage `json:"job"`
		Resource json.RawMessage `json:"resource"`
	}
	_ = json.Unmarshal(step.Config, &keys)
	preset, _ := keys.Use.(string)
	// In a registration for this kind alone, the kind's keys may be beside the common ones.
	barrier := cmp.Or(barrierIn(keys.Rollouts), barrierIn(step.Config))
	return PluginStep{
		Index: index, Plugin: step.Name, Preset: preset, Barrier: barrier,
		Rollouts:  keys.Rollouts != nil || barrier != "",
		OtherKind: keys.Rollouts == nil && (keys.HTTP != nil || keys.Job != nil || keys.Resource != nil),
	}
}

// barrierIn returns the barrier that a section `rollouts` names, if it is a valid one.
func barrierIn(section json.RawMessage) string {
	var keys struct {
		Barrier any `json:"barrier"`
	}
	_ = json.Unmarshal(section, &keys)
	barrier, _ := keys.Barrier.(string)
	if !barrierPattern.MatchString(barrier) {
		return ""
	}
	return barrier
}

// Barrier is where Rollouts meet: at steps of the same name. Each Rollout's first step of
// that name meets the first of the others, the second the second, and so on.
type Barrier struct {
	// Name is the name that the step's configuration or its preset gives, else the preset's
	// name, else the registered name.
	Name string
	// Occurrence counts the steps of a Rollout with this name, from 1.
	Occurrence int
	naming
}

// String names the barrier for people: "acme/check-others#1".
func (b Barrier) String() string { return fmt.Sprintf("%s#%d", b.Name, b.Occurrence) }

// in returns the index of a Rollout's step at the barrier; ok is false if it has none.
func (b Barrier) in(all []PluginStep) (index int, ok bool) {
	occurrence := 0
	for _, step := range all {
		if b.of(step) != b.Name {
			continue
		}
		if occurrence++; occurrence == b.Occurrence {
			return step.Index, true
		}
	}
	return 0, false
}

// naming knows what is needed for the names of barriers.
type naming struct {
	// plugin and preset are those of the step that waits, defaults is what its preset had under
	// `rollouts` when its configuration was read: the preset may be gone since.
	plugin, preset string
	defaults       json.RawMessage
	// presets is Options.Presets.
	presets func(name string) (section json.RawMessage, known bool)
}

// of returns the name of a step's barrier; empty for a step of another kind. A step whose
// preset is not known may be at the barrier of the preset's name.
func (n naming) of(s PluginStep) string {
	var section json.RawMessage
	known := s.Preset == ""
	if n.presets != nil && !known {
		section, known = n.presets(s.Preset)
	}
	sameKind := n.presets == nil && s.Plugin == n.plugin
	if sameKind || !known && s.Preset == n.preset {
		section = n.defaults
	}
	if s.OtherKind || known && !s.Rollouts && !sameKind && (section == nil || string(section) == "null") {
		return ""
	}
	return cmp.Or(s.Barrier, barrierIn(section), s.Preset, s.Plugin)
}

// barrierOf returns the barrier of a Rollout's step. n lacks plugin and preset.
func barrierOf(ro *v1alpha1.Rollout, index int32, n naming) (Barrier, error) {
	if ro.Spec.Strategy.Canary == nil || int(index) >= len(ro.Spec.Strategy.Canary.Steps) || ro.Spec.Strategy.Canary.Steps[index].Plugin == nil {
		return Barrier{}, fmt.Errorf("step %d of the Rollout is no plugin step any more", index+1)
	}
	canarySteps := ro.Spec.Strategy.Canary.Steps
	own := readPluginStep(int(index), canarySteps[index].Plugin)
	n.plugin, n.preset = own.Plugin, own.Preset
	own.Rollouts = true
	b := Barrier{Name: n.of(own), Occurrence: 1, naming: n}
	for i, step := range canarySteps[:index] {
		if step.Plugin != nil && n.of(readPluginStep(i, step.Plugin)) == b.Name {
			b.Occurrence++
		}
	}
	return b, nil
}
