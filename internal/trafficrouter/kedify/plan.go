package kedify

import (
	"slices"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

// plan is what one call asks for.
type plan struct {
	ro     *v1alpha1.Rollout
	weight int32
	// names are the HTTPScaledObjects that the Rollout names. There are none
	// when its configuration cannot be read; configError says why.
	names       []string
	configError error
	// split is what each of them is to carry; none at rest, unless the Rollout
	// uses pingPong.
	split []weightedbackends.Backend
	// atRest is true when nothing is asked for canary or experiments: all of the
	// traffic is stable's.
	atRest bool
	// problem is what is wrong with the Rollout's spec, configError included.
	problem error
}

// planFor is the pure part of a call. At rest a problem keeps the plan from
// nothing but what it is about.
func planFor(ro *v1alpha1.Rollout, weight int32, additional []v1alpha1.WeightDestination) plan {
	p := plan{ro: ro, weight: weight, atRest: isIdle(weight, additional)}
	config, err := rolloutConfig(ro)
	p.names, p.configError, p.problem = config.Names(), err, err
	p.split, err = DesiredSplit(ro, weight, additional)
	if p.problem == nil {
		p.problem = err
	}
	if p.atRest {
		p.split = restSplit(ro)
	}
	return p
}

// names tells whether the plan is for an HTTPScaledObject.
func (p plan) isFor(name string) bool { return slices.Contains(p.names, name) }

// pingPong tells whether the Rollout's stable Service changes sides.
func (p plan) pingPong() bool { return usesPingPong(p.ro) }
