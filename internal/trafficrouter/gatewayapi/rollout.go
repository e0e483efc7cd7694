package gatewayapi

import (
	"maps"
	"slices"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutspec"
)

// Rollout is what a decision has to know of a Rollout.
type Rollout struct {
	types.NamespacedName
	// Stable and Canary are the names of the Services in those roles now.
	Stable, Canary string
	// PingPong is true where the two Services change sides at each promotion.
	PingPong bool
	// Max is the weight that is all of the traffic.
	Max int32
	// ManagedRoutes are the names of the header and mirror routes, highest
	// precedence first.
	ManagedRoutes []string

	// Rules are the names of the rules to split; all that hold both Services when
	// empty.
	Rules []string
	// Label marks a route that is not at rest.
	Label Label
	// Unconfigured is true where the configuration cannot be read: Rules and Label
	// are not known then. SetWeight then works at weight 0 alone, on the rules that
	// are known to be the Rollout's.
	Unconfigured bool

	// Plugin is the registered name of the plugin that decides; DefaultPluginName when
	// empty.
	Plugin string
	// Registrations are the plugins that the Rollout has a configuration for. What one that
	// it does not have any more has left is taken over; nothing is if this is empty.
	Registrations []string
	// Steps are all steps of the Rollout, Passed those before the current one.
	Steps, Passed []v1alpha1.CanaryStep
	// UseHeaderRoutes is true where the route takes the Rollout's header and mirror routes.
	UseHeaderRoutes bool
	// MirrorPercent is true where the HTTPRoutes of the cluster have the field
	// percent of a mirror.
	MirrorPercent bool
	// Port finds the port of an experiment's Service. It is asked once for each
	// Service and port.
	Port PortFunc
}

// PortFunc returns the port of an experiment's Service that reaches the same
// targetPort as a port of the stable Service, both in the Rollout's namespace. An
// error says what is missing.
type PortFunc func(experiment, stable string, port int32) (int32, error)

// RolloutOf returns what a Rollout's own spec and status say: all but Label, Plugin,
// UseHeaderRoutes, MirrorPercent and Port. Rules are those of one route, from its
// RouteConfig.
func RolloutOf(ro *v1alpha1.Rollout, rules []string) Rollout {
	r := Rollout{
		NamespacedName: types.NamespacedName{Namespace: ro.Namespace, Name: ro.Name},
		PingPong:       rolloutspec.UsesPingPong(ro),
		Max:            rolloutspec.MaxWeight(ro),
		Rules:          rules,
	}
	r.Stable, r.Canary = rolloutspec.Services(ro)
	c := ro.Spec.Strategy.Canary
	if c == nil {
		return r
	}
	r.Steps = c.Steps
	if index := ro.Status.CurrentStepIndex; index != nil { // over RPC 0 arrives as nil
		r.Passed = c.Steps[:max(0, min(int(*index), len(c.Steps)))]
	}
	if c.TrafficRouting != nil {
		r.Registrations = slices.Sorted(maps.Keys(c.TrafficRouting.Plugins))
		for _, route := range c.TrafficRouting.ManagedRoutes {
			r.ManagedRoutes = append(r.ManagedRoutes, route.Name)
		}
	}
	return r
}

// owner is the registration that decides.
func (r Rollout) owner() Owner { return Owner{Rollout: r.NamespacedName, Plugin: r.Plugin} }

// max is Max, or its default.
func (r Rollout) max() int64 {
	if r.Max < 1 {
		return rolloutspec.DefaultMaxWeight
	}
	return int64(r.Max)
}

// Weights are the shares of a Rollout's traffic. The zero value is rest.
type Weights struct {
	Stable, Canary int32
	Experiments    []ExperimentWeight
}

// ExperimentWeight is the share of an experiment's Service.
type ExperimentWeight struct {
	Service string
	Weight  int32
}

// AtRest tells whether all of the traffic is stable's.
func (w Weights) AtRest() bool { return w.Canary == 0 && len(w.Experiments) == 0 }

// WeightsOf returns the weights that a call asks for. It fails if they are not
// possible: see rolloutspec.StableWeight.
func WeightsOf(ro *v1alpha1.Rollout, weight int32, additional []v1alpha1.WeightDestination) (Weights, error) {
	stable, err := rolloutspec.StableWeight(ro, weight, additional)
	if err != nil {
		return Weights{}, err
	}
	w := Weights{Stable: stable, Canary: weight}
	for _, destination := range additional {
		w.Experiments = append(w.Experiments, ExperimentWeight{destination.ServiceName, destination.Weight})
	}
	return w, nil
}
