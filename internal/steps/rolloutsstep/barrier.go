package rolloutsstep

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
)

// Place is a plugin step of a Rollout.
type Place struct {
	// Index is the index of the step, from 0.
	Index int
	// Plugin is the plugin's registered name.
	Plugin string
	// Barrier is the barrier that the step's own configuration names; empty if it names
	// none.
	Barrier string
}

// Barrier is where Rollouts meet: at steps of the same name. Each Rollout's first step of
// that name meets the first of the others, the second the second, and so on.
type Barrier struct {
	// Name is the name that the step's configuration or the preset gives, else the
	// registered name.
	Name string
	// Occurrence counts the steps of a Rollout with this name, from 1.
	Occurrence int
	// Plugin is the registered name. Default is the barrier of this plugin's steps that
	// name none themselves: the one that the preset names, else the registered name.
	Plugin, Default string
}

// String names the barrier for people: "acme/check-others#1".
func (b Barrier) String() string { return fmt.Sprintf("%s#%d", b.Name, b.Occurrence) }

// nameOf returns the name of a step's barrier.
func (b Barrier) nameOf(p Place) string {
	switch {
	case p.Barrier != "":
		return p.Barrier
	case p.Plugin == b.Plugin:
		return b.Default
	default:
		return p.Plugin
	}
}

// in returns the index of a Rollout's step at the barrier; ok is false if it has none.
func (b Barrier) in(places []Place) (index int, ok bool) {
	occurrence := 0
	for _, place := range places {
		if b.nameOf(place) != b.Name {
			continue
		}
		if occurrence++; occurrence == b.Occurrence {
			return place.Index, true
		}
	}
	return 0, false
}

// barrierOf returns the barrier of a step of the plugin. preset is the barrier that the
// preset gives to steps that name none; empty if it gives none.
func barrierOf(ro *v1alpha1.Rollout, plugin string, index int32, preset string) (Barrier, error) {
	if ro.Spec.Strategy.Canary == nil || int(index) >= len(ro.Spec.Strategy.Canary.Steps) || ro.Spec.Strategy.Canary.Steps[index].Plugin == nil {
		return Barrier{}, fmt.Errorf("step %d of the Rollout is no plugin step any more", index+1)
	}
	var places []Place
	var own Place
	for i, step := range ro.Spec.Strategy.Canary.Steps {
		if step.Plugin == nil {
			continue
		}
		place := Place{Index: i, Plugin: step.Plugin.Name, Barrier: configuredBarrier(step.Plugin.Config)}
		places = append(places, place)
		if i == int(index) {
			own = place
		}
	}
	b := Barrier{Plugin: plugin, Default: cmp.Or(preset, plugin)}
	b.Name = b.nameOf(own)
	for _, place := range places {
		if place.Index <= own.Index && b.nameOf(place) == b.Name {
			b.Occurrence++
		}
	}
	return b, nil
}

// configuredBarrier is the barrier that a step's own configuration names, if it is a valid
// one. The configuration may be that of another kind of step.
func configuredBarrier(config json.RawMessage) string {
	var keys struct {
		Barrier any `json:"barrier"`
	}
	if len(config) == 0 || json.Unmarshal(config, &keys) != nil {
		return ""
	}
	barrier, _ := keys.Barrier.(string)
	if !barrierPattern.MatchString(barrier) {
		return ""
	}
	return barrier
}
