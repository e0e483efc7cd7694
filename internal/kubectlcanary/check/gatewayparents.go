package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/gatewayapi"
)

// checkGateways: each Gateway that a route of the Rollout names as a parent exists, and
// is programmed.
func checkGateways(s snapshot, ro *v1alpha1.Rollout, use gatewayUse) []Result {
	var results []Result
	var seen []types.NamespacedName
	for _, route := range routesUsed(s, ro, use) {
		for _, name := range gatewayapi.GatewaysOf(route.Unstructured) {
			if !slices.Contains(seen, name) {
				seen = append(seen, name)
				results = append(results, checkGateway(route, name, s.gateway.gateways[name]))
			}
		}
	}
	return results
}

func checkGateway(route routeUse, name types.NamespacedName, gateway read[gatewayObject]) Result {
	at := object("Gateway", name.Namespace, name.Name)
	describe := fmt.Sprintf("kubectl -n %s describe gateway %s", name.Namespace, name.Name)
	switch {
	case gateway.Err.notFound():
		return failure(at, fmt.Sprintf("does not exist; %s names it as a parent", route.at()), "create it, or correct spec.parentRefs: "+route.edit())
	case gateway.Err != nil:
		return couldNotLook(at, gateway.Err)
	}
	for _, wanted := range []string{"Accepted", "Programmed"} {
		i := slices.IndexFunc(gateway.Value.Status.Conditions, func(c condition) bool { return c.Type == wanted })
		if i < 0 && wanted == "Accepted" {
			continue // Programmed says it, too
		}
		if i < 0 {
			return warning(at, "no controller says whether it is Programmed", "does the controller of its GatewayClass run? "+describe)
		}
		switch c := gateway.Value.Status.Conditions[i]; c.Status {
		case corev1.ConditionTrue:
		case corev1.ConditionFalse:
			return failure(at, fmt.Sprintf("is not %s%s", wanted, because(strings.Trim(c.Reason+": "+c.Message, ": "))), describe)
		default:
			return warning(at, fmt.Sprintf("its controller has not decided whether it is %s%s", wanted, because(strings.Trim(c.Reason+": "+c.Message, ": "))), "does the controller of its GatewayClass run? "+describe)
		}
	}
	return ok(at, "is programmed")
}

// checkParents: every parent of a route has accepted it as it is, and finds what it
// refers to.
func checkParents(s snapshot, ro *v1alpha1.Rollout, use gatewayUse) []Result {
	var results []Result
	for _, route := range routesUsed(s, ro, use) {
		parents := gatewayapi.ParentsOf(route.Unstructured, route.rollout)
		if len(parents) == 0 {
			results = append(results, failure(route.at(), "names no parent: no gateway serves it", "set spec.parentRefs: "+route.edit()))
			continue
		}
		var accepted []string
		for _, parent := range parents {
			switch parent.State {
			case gatewayapi.Accepted:
				if len(parent.Excused) > 0 {
					results = append(results, warning(route.at(), parent.String(), "correct what it names: "+route.edit()+"; a canary goes on all the same if that is not in a rule of its own"))
					continue
				}
				accepted = append(accepted, parent.Name)
			case gatewayapi.Refused:
				results = append(results, failure(route.at(), parent.String(), "correct what it names: "+route.edit()))
			case gatewayapi.Behind:
				results = append(results, warning(route.at(), parent.String()+fmt.Sprintf(": it has reported on generation %d of %d", parent.Generation, route.GetGeneration()),
					"try again in a moment; if it stays so, does its controller run? "+route.get()))
			case gatewayapi.Unreported:
				results = append(results, warning(route.at(), parent.String()+": no controller says whether the route is Accepted and its ResolvedRefs", "does the controller of its GatewayClass run, and does a listener of that name exist? "+route.get()))
			}
		}
		if len(accepted) == len(parents) {
			results = append(results, ok(route.at(), "is accepted by "+strings.Join(accepted, ", ")))
		}
	}
	return results
}

// checkGrants: backends in other namespaces than the route's are granted to it.
func checkGrants(s snapshot, ro *v1alpha1.Rollout, use gatewayUse) []Result {
	var results []Result
	for _, route := range routesUsed(s, ro, use) {
		for _, b := range gatewayapi.BackendsOf(route.Unstructured) {
			if b.Namespace == route.GetNamespace() {
				continue
			}
			backend := object(b.Kind, b.Namespace, b.Name)
			grants := s.gateway.grants[b.Namespace]
			switch {
			case grants.Err != nil && !grants.Err.notFound():
				results = append(results, couldNotLook(route.at(), grants.Err))
			case slices.ContainsFunc(grants.Value, func(g gatewayapi.ReferenceGrant) bool { return g.Grants(route.Unstructured, b) }):
				results = append(results, ok(route.at(), "is granted "+backend+" by a ReferenceGrant"))
			default:
				results = append(results, failure(route.at(), fmt.Sprintf("refers to %s in another namespace, where no ReferenceGrant allows that", backend),
					fmt.Sprintf("make a ReferenceGrant in namespace %s with from {group: %s, kind: %s, namespace: %s} and to {group: %q, kind: %s}", b.Namespace, gatewayapi.Group, route.GetKind(), route.GetNamespace(), b.Group, b.Kind)))
			}
		}
	}
	return results
}
