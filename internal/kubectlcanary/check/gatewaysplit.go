package check

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/gatewayapi"
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

// checkRouteSplit: each route carries the weights that the Rollout's status says.
func checkRouteSplit(s snapshot, ro *v1alpha1.Rollout, use gatewayUse) []Result {
	namespace, workload := s.controller.name()
	log := fmt.Sprintf("kubectl -n %s logs %s | grep %s", namespace, workload, ro.Name)
	var results []Result
	for _, route := range routesUsed(s, ro, use) {
		decision, known := decided(ro, route)
		if !known {
			continue
		}
		has := describeSplits(route)
		if reflect.DeepEqual(decision.Route.Object["spec"], route.Object["spec"]) {
			results = append(results, ok(route.at(), has+", as the Rollout's status says"))
			continue
		}
		wants := describeSplits(routeUse{decision.Route, route.rollout})
		message := fmt.Sprintf("has %s, the Rollout's status says %s", has, wants)
		if has == wants {
			message = "a header or mirror route on it is not as the Rollout's steps set it"
		}
		if said := lastComplaint(s, ro).message; said != "" {
			results = append(results, failure(route.at(), message+"; the controller says: "+said, complaintRemedy(s.controller, ro, said, log)))
			continue
		}
		results = append(results, failure(route.at(), message,
			fmt.Sprintf("something else changes it (GitOps? see argocd-settings): %s --show-managed-fields says who; the plugin puts it back where it runs and may list and watch (see controller-access): %s", route.get(), log)))
	}
	return results
}

// checkRoutesLeft finds, among the routes of the kinds that Rollouts use here, those that
// carry something of a Rollout that is gone, or that does not use the router any more:
// nothing restores them.
func checkRoutesLeft(s snapshot) []Result {
	if s.rollout != "" || s.objects.rollouts.Err != nil {
		return nil
	}
	var results []Result
	for _, of := range s.plugins {
		for _, kind := range routesOf(s, of.router) {
			routes := s.gateway.routes[kind].Value
			for i := range routes {
				results = append(results, checkRouteLeft(s, routeUse{Unstructured: &routes[i]})...)
			}
		}
	}
	return results
}

func checkRouteLeft(s snapshot, route routeUse) []Result {
	var results []Result
	for _, owner := range gatewayapi.RolloutsOn(route.Unstructured) {
		name := owner.Rollout
		ro := s.objects.rollout(name.Name)
		why := "does not exist"
		switch {
		case name.Namespace != s.namespace, ro != nil && len(gatewayNames(ro)) > 0:
			continue
		case ro != nil:
			why = "does not use the Gateway API router any more"
		}
		results = append(results, failure(route.at(), fmt.Sprintf("carries the split of Rollout %s, which %s", name, why),
			fmt.Sprintf("put back the weights, and take off the annotation %s and the in-progress label: %s", gatewayapi.Annotation, route.edit())))
	}
	return results
}

// checkRouteLabel: each route carries the in-progress label while a canary is under way,
// and not at rest.
func checkRouteLabel(s snapshot, ro *v1alpha1.Rollout, use gatewayUse) []Result {
	label := use.config.Label
	if label.Key == "" {
		return nil // disabled
	}
	var results []Result
	for _, route := range routesUsed(s, ro, use) {
		decision, known := decided(ro, route)
		if !known {
			continue
		}
		has, want := route.GetLabels()[label.Key], decision.Route.GetLabels()[label.Key]
		// At rest a label that was left behind looks like one that the user has set.
		left := has == label.Value && len(gatewayapi.RolloutsOn(decision.Route)) == 0
		named := label.Key + "=" + label.Value
		switch {
		case has != want && want != "":
			results = append(results, warning(route.at(), fmt.Sprintf("lacks the label %s while a canary is under way: Argo CD takes back what it is told to leave alone with that label", named),
				"something takes it off: have it leave the label alone; the plugin puts it back where it may list and watch (see controller-access)"))
		case has != want || left:
			results = append(results, warning(route.at(), fmt.Sprintf("has the label %s, and no canary is under way on it", named),
				fmt.Sprintf("take it off: kubectl -n %s label %s %s %s-", route.GetNamespace(), strings.ToLower(route.GetKind()), route.GetName(), label.Key)))
		case want != "":
			results = append(results, ok(route.at(), "has the label "+label.Key+"="+want))
		default:
			results = append(results, ok(route.at(), "has no label "+label.Key+" at rest"))
		}
	}
	return results
}
