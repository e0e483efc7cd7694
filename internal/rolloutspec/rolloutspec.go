// Package rolloutspec reads of a Rollout what every traffic router has to know:
// the two Services, and how a weight divides the traffic.
package rolloutspec

import (
	"errors"
	"fmt"
	"slices"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
)

// DefaultMaxWeight is Argo Rollouts' default of
// spec.strategy.canary.trafficRouting.maxTrafficWeight.
const DefaultMaxWeight = 100

// Services returns the names of a Rollout's stable and canary Service. With
// pingPong, those are the two Services of pingPong, in the order that
// status.canary.stablePingPong gives them now. It returns empty names where
// the Rollout has none.
func Services(ro *v1alpha1.Rollout) (stable, canary string) {
	c := ro.Spec.Strategy.Canary
	switch {
	case c == nil:
		return "", ""
	case c.PingPong == nil:
		return c.StableService, c.CanaryService
	// Before the first promotion the status is empty, and stable is "pong".
	case ro.Status.Canary.StablePingPong == v1alpha1.PPPing:
		return c.PingPong.PingService, c.PingPong.PongService
	default:
		return c.PingPong.PongService, c.PingPong.PingService
	}
}

// MaxWeight returns the weight that is all of the traffic of a Rollout.
func MaxWeight(ro *v1alpha1.Rollout) int32 {
	if c := ro.Spec.Strategy.Canary; c != nil && c.TrafficRouting != nil && c.TrafficRouting.MaxTrafficWeight != nil {
		return *c.TrafficRouting.MaxTrafficWeight
	}
	return DefaultMaxWeight
}

// UsesPingPong tells whether the two Services of a Rollout change sides at each
// promotion.
func UsesPingPong(ro *v1alpha1.Rollout) bool {
	return ro.Spec.Strategy.Canary != nil && ro.Spec.Strategy.Canary.PingPong != nil
}

// WeightSet tells whether the controller has set a weight above 0, which is what there
// is to go by where what the router has written cannot be read.
func WeightSet(ro *v1alpha1.Rollout) bool {
	weights := ro.Status.Canary.Weights
	return weights != nil && (weights.Canary.Weight > 0 ||
		slices.ContainsFunc(weights.Additional, func(d v1alpha1.WeightDestination) bool { return d.Weight > 0 }))
}

// UnderWay tells whether a Rollout has a canary under way. The next SetWeight says then what
// becomes of all that it has on objects, also where the Rollout is held because it names
// what is not there.
func UnderWay(ro *v1alpha1.Rollout) bool { return ro.DeletionTimestamp == nil && WeightSet(ro) }

// ScalesStableDown tells whether the controller, once a weight counts as set, makes
// stable smaller than it is now: with dynamicStableScale it does at a higher weight than
// the last, unless the Rollout is aborted. A split that stays where it was would then
// have too small a stable.
func ScalesStableDown(ro *v1alpha1.Rollout, weight int32) bool {
	last := ro.Status.Canary.Weights
	return ro.Spec.Strategy.Canary != nil && ro.Spec.Strategy.Canary.DynamicStableScale && !ro.Status.Abort &&
		(last == nil || weight > last.Canary.Weight)
}

// StableWeight returns what canary and experiments leave of a Rollout's traffic
// for stable: all weights add up to MaxWeight. It is an error when Services are
// missing or equal, when a Service is named twice, or when a weight is outside
// 0..MaxWeight or all of them add up past it.
func StableWeight(ro *v1alpha1.Rollout, weight int32, additional []v1alpha1.WeightDestination) (int32, error) {
	if ro.Spec.Strategy.Canary == nil {
		return 0, errors.New("spec.strategy.canary is missing: only the canary strategy splits traffic")
	}
	stable, canary := Services(ro)
	if err := checkServices(ro, stable, canary); err != nil {
		return 0, err
	}
	most := MaxWeight(ro)
	if most < 1 {
		return 0, fmt.Errorf("spec.strategy.canary.trafficRouting.maxTrafficWeight is %d: want 1 or more", most)
	}
	if weight < 0 || weight > most {
		return 0, fmt.Errorf("the canary weight %d is outside 0..%d: correct setWeight or spec.strategy.canary.trafficRouting.maxTrafficWeight", weight, most)
	}
	rest := most - weight
	names := []string{stable, canary}
	for i, destination := range additional {
		switch {
		case destination.ServiceName == "":
			return 0, fmt.Errorf("additional destination %d (pod template hash %q) has no Service: the experiment's template needs one", i, destination.PodTemplateHash)
		case slices.Contains(names, destination.ServiceName):
			return 0, fmt.Errorf("Service %q would be in the split twice: the experiment's template needs a Service of its own", destination.ServiceName)
		case destination.Weight < 0 || destination.Weight > most:
			return 0, fmt.Errorf("the weight %d of experiment Service %q is outside 0..%d", destination.Weight, destination.ServiceName, most)
		case destination.Weight > rest:
			return 0, fmt.Errorf("the weights of canary and experiments add up past %d at Service %q: lower setWeight or the experiment's weights", most, destination.ServiceName)
		}
		rest -= destination.Weight
		names = append(names, destination.ServiceName)
	}
	return rest, nil
}

func checkServices(ro *v1alpha1.Rollout, stable, canary string) error {
	stableField, canaryField := "spec.strategy.canary.stableService", "spec.strategy.canary.canaryService"
	if ro.Spec.Strategy.Canary.PingPong != nil {
		stableField, canaryField = "spec.strategy.canary.pingPong.pingService", "spec.strategy.canary.pingPong.pongService"
		stable, canary = ro.Spec.Strategy.Canary.PingPong.PingService, ro.Spec.Strategy.Canary.PingPong.PongService
	}
	switch {
	case stable == "":
		return fmt.Errorf("%s is missing: name the Service of that side", stableField)
	case canary == "":
		return fmt.Errorf("%s is missing: name the Service of that side", canaryField)
	case stable == canary:
		return fmt.Errorf("%s and %s are both %q: a split needs two Services", stableField, canaryField, stable)
	}
	return nil
}
