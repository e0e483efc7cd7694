package gatewayapi

import (
	"context"
	"fmt"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
	"github.com/kedify/argo-rollouts-plugin/internal/selfheal"
)

// Reasons of the router's Events.
const (
	// reasonError is the reason of Argo Rollouts' own Event for an error of
	// SetWeight; it is where users look.
	reasonError = "TrafficRoutingError"
	// reasonConfiguration is for keys that are ignored.
	reasonConfiguration = "GatewayAPIConfiguration"
	// reasonRoute is for what a decision warns of.
	reasonRoute = "GatewayAPIRoute"
	// reasonRefused is for a parent that refuses a route.
	reasonRefused = "RouteRefused"
	// reasonUnreported is for a parent that does not say whether it accepts a route.
	reasonUnreported = "RouteNotReported"
	// reasonRestored is for a route that another writer has changed.
	reasonRestored = "RouteRestored"
)

// plan is what one call of the controller asks for.
type plan struct {
	ro *v1alpha1.Rollout
	// notes are for the memory of unchanged calls.
	notes  *notes
	weight int32
	call   selfheal.Call
	config Config
	// configError is why the configuration cannot be read.
	configError error
	weights     Weights
	// onlyRoutes is true for a call that is about header and mirror routes, not weights.
	onlyRoutes bool
	// problem is what is wrong with the Rollout's spec, configError included.
	problem error
	// dropsExperiments is true when experiments get nothing because of the problem.
	dropsExperiments bool
}

// planFor reads from a Rollout what a call needs. At weight 0 a problem does not stop
// the call: experiments get nothing either then, because traffic may have to leave a
// canary without pods.
func (r *Router) planFor(ro *v1alpha1.Rollout, n *notes, weight int32, additional []v1alpha1.WeightDestination) plan {
	p := plan{ro: ro, notes: n, weight: weight, call: selfheal.CallOf(ro, weight, additional)}
	p.config, p.configError = ConfigOf(ro, r.options.PluginName)
	weights, err := WeightsOf(ro, weight, additional)
	p.weights, p.problem = weights, p.configError
	if p.problem == nil {
		p.problem = err
	}
	if p.problem != nil && weight == 0 {
		p.weights, p.dropsExperiments = Weights{}, len(additional) > 0
	}
	for _, warning := range p.config.Warnings {
		r.warn(p, reasonConfiguration, warning, warning)
	}
	return p
}

// planForRoutes is planFor for a call that is about header and mirror routes.
func (r *Router) planForRoutes(ro *v1alpha1.Rollout, n *notes) plan {
	p := r.planFor(ro, n, 0, nil)
	p.onlyRoutes = true
	return p
}

// atRest tells whether all of the traffic is to go to stable.
func (p plan) atRest() bool { return p.weight == 0 && p.weights.AtRest() }

// withoutExperiments is the plan for a weight of 0 that cannot have its experiments:
// all of the traffic goes to stable.
func (p plan) withoutExperiments(problem error) plan {
	p.notes.doNotRemember() // the problem may end without a change of a route
	p.weights, p.dropsExperiments, p.problem = Weights{}, true, problem
	return p
}

// target is a route that a call is about, as it is now, and the Rollout as far as it
// concerns the route.
type target struct {
	ref     routeRef
	headers bool // whether it takes header routes
	route   *unstructured.Unstructured
	rollout Rollout
}

// rollout returns what a decision on one route has to know of the call's Rollout.
func (r *Router) rollout(ctx context.Context, p plan, rules []string) Rollout {
	ro := RolloutOf(p.ro, rules)
	ro.Label = p.config.Label
	if r.options.PluginName != DefaultPluginName {
		ro.Plugin = r.options.PluginName
	}
	ro.Unconfigured = p.configError != nil
	ro.MirrorPercent = r.mirroring.knowsPercent()
	ro.Port = r.port(ctx, p.ro.Namespace)
	return ro
}

// warn writes an Event on the call's Rollout, once for each step and topic: the
// controller's own Event says then that the step's weight was set.
func (r *Router) warn(p plan, reason, topic, message string) {
	step := int32(0)
	if p.ro.Status.CurrentStepIndex != nil {
		step = *p.ro.Status.CurrentStepIndex
	}
	about := rolloutsplugin.RolloutReference(p.ro)
	topic, message = fmt.Sprintf("step %d: %s", step, topic), fmt.Sprintf("Rollout %s: %s", nameOf(p.ro), message)
	p.notes.do(func() { r.events.Warn(about, reason, topic, message) })
}
