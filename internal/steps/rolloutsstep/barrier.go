package rolloutsstep

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
)

// Place is a plugin step of a Rollout.
type Place struct {
	// Index is the step's, from 0.
	Index int
	// Plugin is the registered name.
	Plugin string
	// Barrier is what the step's configuration says; empty where it says nothing.
	Barrier string
}

// Barrier is where Rollouts meet: the steps that have the same name, each Rollout's first,
// second and so on by themselves.
type Barrier struct {
	// Name is that of the step's configuration, else the registered name.
	Name string
	// Occurrence counts the steps of a Rollout with this name, from 1.
	Occurrence int
	// Plugin is the registered name, and Default the name of its steps whose configuration
	// does not say one: the preset's, else the registered name.
	Plugin, Default string
}

// String names the barrier for people: "acme/check-others#1".
func (b Barrier) String() string { return fmt.Sprintf("%s#%d", b.Name, b.Occurrence) }

// nameOf is the barrier's name of a step.
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

// in returns the index of the barrier's step among those of a Rollout.
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

// barrierOf returns the barrier of a step of the plugin. preset is the barrier of the
// registration's steps that name none; empty where the preset names none either.
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
