package kedify

import (
	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutspec"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

// DesiredSplit returns the backends that carry a Rollout's traffic at a canary weight:
// stable first, canary second, then each additional destination under its Service; the
// weights add up to MaxWeight. It returns nil at weight 0 without additional
// destinations, as there is nothing to split, unless the Rollout uses pingPong: there
// stable alternates between two Services, and so has to be named. It is an error when
// Services are missing or equal, when a weight is outside 0..MaxWeight, or when the
// weights add up to more than MaxWeight.
func DesiredSplit(ro *v1alpha1.Rollout, weight int32, additional []v1alpha1.WeightDestination) ([]weightedbackends.Backend, error) {
	rest, err := rolloutspec.StableWeight(ro, weight, additional)
	if err != nil {
		return nil, err
	}
	if isIdle(weight, additional) && !rolloutspec.UsesPingPong(ro) {
		return nil, nil
	}
	stable, canary := rolloutspec.Services(ro)
	split := []weightedbackends.Backend{{Service: stable, Weight: rest}, {Service: canary, Weight: weight}}
	for _, destination := range additional {
		split = append(split, weightedbackends.Backend{Service: destination.ServiceName, Weight: destination.Weight})
	}
	return split, nil
}

// restSplit returns what a Rollout asks for at weight 0, whatever is wrong with
// the rest of its spec: nothing, or with pingPong everything for the Service
// that is stable now. (Argo Rollouts refuses a pingPong without Services.)
func restSplit(ro *v1alpha1.Rollout) []weightedbackends.Backend {
	if !rolloutspec.UsesPingPong(ro) {
		return nil
	}
	most := rolloutspec.MaxWeight(ro)
	if most < 1 {
		most = rolloutspec.DefaultMaxWeight
	}
	stable, canary := rolloutspec.Services(ro)
	split := []weightedbackends.Backend{{Service: stable, Weight: most}}
	if canary != "" && canary != stable {
		split = append(split, weightedbackends.Backend{Service: canary})
	}
	return split
}

// isIdle tells whether nothing is asked for canary or experiments: all of the
// traffic is stable's.
func isIdle(weight int32, additional []v1alpha1.WeightDestination) bool {
	return weight == 0 && len(additional) == 0
}
