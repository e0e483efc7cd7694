package check

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/gatewayapi"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/kedify"
)

// decided returns what the router would make of a route for the weights that the
// Rollout's status says; false if that cannot be told here: a route that it cannot split
// is reported by route-rules, and the ports of experiments are not known.
func decided(ro *v1alpha1.Rollout, route routeUse) (gatewayapi.Decision, bool) {
	weights := weightsOf(ro)
	if len(weights.Additional) > 0 {
		return gatewayapi.Decision{}, false
	}
	wanted, err := gatewayapi.WeightsOf(ro, weights.Canary.Weight, nil)
	if err != nil {
		return gatewayapi.Decision{}, false
	}
	decision, err := gatewayapi.Apply(route.Unstructured, route.rollout, gatewayapi.Wanted{Weights: &wanted})
	if err == nil && decision.Changed {
		// A CRD that does not have the percentage of a mirror drops it.
		route.rollout.MirrorPercent = false
		if without, err := gatewayapi.Apply(route.Unstructured, route.rollout, gatewayapi.Wanted{Weights: &wanted}); err == nil && !without.Changed {
			decision = without
		}
	}
	return decision, err == nil
}

// checkRouteSplit: the route carries the weights that the Rollout's status says, and the
// in-progress label while a canary is under way.
func checkRouteSplit(r subject, route routeUse) []Result {
	decision, known := decided(r.ro, route)
	if !known {
		return nil
	}
	has, wants := describeSplits(route), describeSplits(routeUse{decision.Route, route.rollout})
	elsewhere := fmt.Sprintf("something else changes it (GitOps? docs/how-to/gitops.md): %s --show-managed-fields says what; the plugin puts it back where it runs and may list and watch (see controller-access): %s",
		route.get(), r.controller.logCommand("gatewayapi\\|forbidden"))
	label := route.rollout.Label
	hasLabel, wantsLabel := route.GetLabels()[label.Key], decision.Route.GetLabels()[label.Key]
	// At rest a label that was left behind looks like one that the user has set.
	left := hasLabel == label.Value && len(gatewayapi.RolloutsOn(decision.Route)) == 0
	switch {
	case !reflect.DeepEqual(decision.Route.Object["spec"], route.Object["spec"]) && has == wants:
		return []Result{failure(route.at(), "a header or mirror route on it is not as the Rollout's steps set it", elsewhere)}
	case !reflect.DeepEqual(decision.Route.Object["spec"], route.Object["spec"]):
		return []Result{failure(route.at(), fmt.Sprintf("has %s, the Rollout's status says %s", has, wants), elsewhere)}
	case label.Key != "" && hasLabel != wantsLabel && wantsLabel != "":
		return []Result{warning(route.at(), fmt.Sprintf("lacks the label %s=%s while a canary is under way: Argo CD takes back what it is told to leave alone with that label", label.Key, label.Value), elsewhere)}
	case label.Key != "" && (hasLabel != wantsLabel || left):
		return []Result{warning(route.at(), fmt.Sprintf("has the label %s=%s, and no canary is under way on it", label.Key, label.Value), "take it off: "+route.edit())}
	}
	return []Result{ok(route.at(), has+", as the Rollout's status says")}
}

// checkRoutesLeft finds, among the routes of the kinds that Rollouts use here, those that
// carry something of a Rollout that is gone, or that does not use the router any more:
// nothing restores them.
func checkRoutesLeft(s snapshot) []Result {
	if s.rollout != "" || !s.objects.allRollouts() {
		return nil
	}
	var results []Result
	for _, kind := range routesOf(s, "") {
		for i := range s.gateway.routes[kind].Value {
			route := routeUse{Unstructured: &s.gateway.routes[kind].Value[i]}
			for _, owner := range gatewayapi.RolloutsOn(route.Unstructured) {
				ro := s.objects.rollout(owner.Rollout.Name)
				uses := func(use routerUse) bool { return use.router != kedify.PluginName }
				if owner.Rollout.Namespace != s.namespace || ro != nil && slices.ContainsFunc(routersOf(ro), uses) {
					continue
				}
				results = append(results, failure(route.at(), fmt.Sprintf("carries the split of Rollout %s, which does not exist, or does not use the Gateway API router any more", owner.Rollout),
					fmt.Sprintf("put back the weights, and take off the annotation %s and the in-progress label: %s", gatewayapi.Annotation, route.edit())))
			}
		}
	}
	return results
}
