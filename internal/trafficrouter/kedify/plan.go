package kedify

import (
	"slices"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutspec"
	"github.com/kedify/argo-rollouts-plugin/internal/selfheal"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

// plan is what one call asks for.
type plan struct {
	ro     *v1alpha1.Rollout
	weight int32
	call   selfheal.Call
	// names are the HTTPScaledObjects that the Rollout names. There are none
	// when its configuration cannot be read; configError says why.
	names       []string
	configError error
	// split is what each of them is to carry; none at rest, unless the Rollout
	// uses pingPong.
	split []weightedbackends.Backend
	// atRest is true when all of the traffic is to go to stable.
	atRest bool
	// problem is what is wrong with the Rollout's spec, configError included.
	problem error
	// dropsExperiments is true when experiments get nothing because of the problem.
	dropsExperiments bool
}

// planFor makes the plan of a call; it makes no request. At canary weight 0 a problem
// does not stop the plan: experiments then get nothing either, since traffic may have
// to leave a canary without pods.
func planFor(ro *v1alpha1.Rollout, weight int32, additional []v1alpha1.WeightDestination) plan {
	p := plan{ro: ro, weight: weight, call: selfheal.CallOf(ro, weight, additional)}
	config, err := rolloutConfig(ro)
	p.names, p.configError, p.problem = config.Names(), err, err
	p.split, err = DesiredSplit(ro, weight, additional)
	if p.problem == nil {
		p.problem = err
	}
	p.dropsExperiments = weight == 0 && len(additional) > 0 && p.problem != nil
	p.atRest = isIdle(weight, additional) || p.dropsExperiments
	if p.atRest {
		p.split = restSplit(ro)
	}
	return p
}

// isFor tells whether the Rollout names an HTTPScaledObject.
func (p plan) isFor(name string) bool { return slices.Contains(p.names, name) }

// pingPong tells whether the Rollout uses pingPong, where stable alternates between two
// Services.
func (p plan) pingPong() bool { return rolloutspec.UsesPingPong(p.ro) }
