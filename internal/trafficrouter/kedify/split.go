package kedify

import (
	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutspec"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter"
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
	stable, err := rolloutspec.StableWeight(ro, weight, additional)
	if err != nil {
		return nil, err
	}
	return splitOf(ro, trafficrouter.Weights{Stable: stable, Canary: weight, Experiments: additional}), nil
}

// splitOf is DesiredSplit for weights that are possible. At rest it depends on nothing
// else in the Rollout's spec. (Argo Rollouts refuses a pingPong without Services.)
func splitOf(ro *v1alpha1.Rollout, weights trafficrouter.Weights) []weightedbackends.Backend {
	stable, canary := rolloutspec.Services(ro)
	if weights.AtRest() {
		if !rolloutspec.UsesPingPong(ro) {
			return nil
		}
		weights.Stable = rolloutspec.MaxWeight(ro)
		if weights.Stable < 1 {
			weights.Stable = rolloutspec.DefaultMaxWeight
		}
	}
	split := []weightedbackends.Backend{{Service: stable, Weight: weights.Stable}, {Service: canary, Weight: weights.Canary}}
	if canary == "" || canary == stable {
		split = split[:1]
	}
	for _, destination := range weights.Experiments {
		split = append(split, weightedbackends.Backend{Service: destination.ServiceName, Weight: destination.Weight})
	}
	return split
}
