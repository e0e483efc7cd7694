package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/gatewayapi"
)

// routeUse is a route that a Rollout names or selects.
type routeUse struct {
	*unstructured.Unstructured
	// rollout is what the router's decisions have to know of the Rollout.
	rollout gatewayapi.Rollout
}

// at names the route as results do.
func (r routeUse) at() string { return object(r.GetKind(), r.GetNamespace(), r.GetName()) }

// get returns the command that shows the route.
func (r routeUse) get() string {
	return fmt.Sprintf("kubectl -n %s get %s %s -o yaml", r.GetNamespace(), strings.ToLower(r.GetKind()), r.GetName())
}

// edit returns the command that opens the route in an editor.
func (r routeUse) edit() string {
	return fmt.Sprintf("kubectl -n %s edit %s %s", r.GetNamespace(), strings.ToLower(r.GetKind()), r.GetName())
}

// routesUsed returns the existing routes that a configuration names or selects.
func routesUsed(s snapshot, ro *v1alpha1.Rollout, use gatewayUse) []routeUse {
	var used []routeUse
	add := func(found []*unstructured.Unstructured, rules []string) {
		for _, route := range found {
			if slices.ContainsFunc(used, func(known routeUse) bool { return known.Unstructured == route }) {
				continue
			}
			rollout := gatewayapi.RolloutOf(ro, rules)
			rollout.Plugin, rollout.Label = use.plugin, use.config.Label
			rollout.MirrorPercent = true
			used = append(used, routeUse{route, rollout})
		}
	}
	for _, named := range use.config.Routes {
		add(routesNamed(s, use, named), named.Rules)
	}
	for _, selector := range use.config.Selectors {
		add(routesSelected(s, use, selector), selector.Rules)
	}
	return used
}

func routesNamed(s snapshot, use gatewayUse, named gatewayapi.RouteConfig) []*unstructured.Unstructured {
	return s.routesWhere(routesAt{named.Kind, use.config.Namespace}, func(route unstructured.Unstructured) bool { return route.GetName() == named.Name })
}

func routesSelected(s snapshot, use gatewayUse, selector gatewayapi.SelectorConfig) []*unstructured.Unstructured {
	return s.routesWhere(routesAt{selector.Kind, use.config.Namespace}, func(route unstructured.Unstructured) bool {
		return selector.Selector.Matches(labels.Set(route.GetLabels()))
	})
}

func (s snapshot) routesWhere(at routesAt, keep func(unstructured.Unstructured) bool) []*unstructured.Unstructured {
	routes := s.gateway.routes[at].Value
	var kept []*unstructured.Unstructured
	for i := range routes {
		if keep(routes[i]) {
			kept = append(kept, &routes[i])
		}
	}
	return kept
}

// checkRoutesExist: each route that the Rollout names exists, and each selector selects
// one.
func checkRoutesExist(r subject) []Result {
	var results []Result
	for _, use := range r.gateways {
		for _, at := range use.kinds() {
			switch err := r.gateway.routes[at].Err; {
			case err.kindMissing():
				results = append(results, failure("Namespace "+at.namespace, fmt.Sprintf("the cluster does not serve %ss (%s)", at.kind, gatewayapi.Group), "install the Gateway API's CustomResourceDefinitions of a release and channel that has them"))
			case err != nil:
				results = append(results, couldNotLook("Namespace "+at.namespace, err))
			}
		}
		unread := func(kind gatewayapi.Kind) bool {
			return r.gateway.routes[routesAt{kind, use.config.Namespace}].Err != nil
		}
		for _, named := range use.config.Routes {
			name := object(string(named.Kind), use.config.Namespace, named.Name)
			switch {
			case unread(named.Kind):
			case len(routesNamed(r.snapshot, use, named)) == 0:
				results = append(results, failure(name, "does not exist", "create it, or correct its name or namespace in the Rollout: "+editRollout(r.ro)))
			default:
				results = append(results, ok(name, "exists"))
			}
		}
		for _, selector := range use.config.Selectors {
			where := fmt.Sprintf("%ss with labels %q", selector.Kind, selector.Selector)
			selected := routesSelected(r.snapshot, use, selector)
			switch {
			case unread(selector.Kind):
			case len(selected) == 0:
				results = append(results, failure("Namespace "+use.config.Namespace, "there are no "+where, "label the routes, or correct the selector in the Rollout: "+editRollout(r.ro)))
			default:
				results = append(results, ok("Namespace "+use.config.Namespace, fmt.Sprintf("has %d %s", len(selected), where)))
			}
		}
	}
	return results
}

// checkRouteRules: the route has a rule that the Rollout can split, with both Services, and
// each rule that the configuration names is such a rule.
func checkRouteRules(r subject, route routeUse) []Result {
	// What the router would do at the next weight, whichever that is.
	_, err := gatewayapi.Apply(route.Unstructured, route.rollout, gatewayapi.Wanted{Weights: &gatewayapi.Weights{Stable: 1, Canary: 1}})
	if err != nil {
		message := strings.TrimPrefix(err.Error(), route.at()+": ")
		return []Result{failure(route.at(), message, fmt.Sprintf("correct the route: %s; or the Rollout: %s", route.edit(), editRollout(r.ro)))}
	}
	var results []Result
	for _, name := range route.rollout.Rules {
		one := route.rollout
		one.Rules = []string{name}
		if len(gatewayapi.SplitsOf(route.Unstructured, one)) == 0 {
			results = append(results, failure(route.at(), fmt.Sprintf("has no rule named %q with both Services in its backendRefs, which the Rollout singles out", name),
				"correct the name of the rule, or rules in the Rollout's configuration (CRDs older than Gateway API v1.4 drop the names of rules): "+route.edit()))
		}
	}
	return append(results, ok(route.at(), "splits "+describeSplits(route)))
}

// describeSplits says how the rules of a route are split.
func describeSplits(route routeUse) string {
	var texts []string
	for _, split := range gatewayapi.SplitsOf(route.Unstructured, route.rollout) {
		texts = append(texts, fmt.Sprintf("%s %s=%d,%s=%d", split.Rule, route.rollout.Stable, split.Stable, route.rollout.Canary, split.Canary))
	}
	return strings.Join(texts, "; ")
}

// checkParents: every parent of the route has accepted it as it is, in the parent's own words.
func checkParents(_ subject, route routeUse) []Result {
	parents := gatewayapi.ParentsOf(route.Unstructured, route.rollout)
	if len(parents) == 0 {
		return []Result{failure(route.at(), "names no parent: no gateway serves it", "set spec.parentRefs: "+route.edit())}
	}
	var results []Result
	for _, parent := range parents {
		switch {
		case parent.State == gatewayapi.Refused:
			results = append(results, failure(route.at(), parent.String(), "correct what it names: "+route.edit()))
		case parent.State != gatewayapi.Accepted || len(parent.Excused) > 0:
			results = append(results, warning(route.at(), parent.String(), "correct what it names; if it stays unreported, does the controller of its GatewayClass run? "+route.get()))
		default:
			results = append(results, ok(route.at(), parent.String()))
		}
	}
	return results
}

// routePort returns the port of a Service that a route of the Rollout sends requests to;
// nil where that is not known.
func (r subject) routePort(service *corev1.Service) *corev1.ServicePort {
	for _, use := range r.gateways {
		for _, route := range routesUsed(r.snapshot, r.ro, use) {
			for _, b := range gatewayapi.BackendsOf(route.Unstructured) {
				i := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return int64(p.Port) == b.Port })
				if b.Name == service.Name && b.Namespace == service.Namespace && i >= 0 {
					return &service.Spec.Ports[i]
				}
			}
		}
	}
	return nil
}
