package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutspec"
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
	add := func(route *unstructured.Unstructured, rules []string) {
		for _, known := range used {
			if known.Unstructured == route {
				return
			}
		}
		rollout := gatewayapi.RolloutOf(ro, rules)
		rollout.Plugin, rollout.Label = use.plugin, use.config.Label
		rollout.MirrorPercent = true
		used = append(used, routeUse{route, rollout})
	}
	for _, named := range use.config.Routes {
		if route := routeNamed(s, use, named); route != nil {
			add(route, named.Rules)
		}
	}
	for _, selector := range use.config.Selectors {
		for _, route := range routesSelected(s, use, selector) {
			add(route, selector.Rules)
		}
	}
	return used
}

func routeNamed(s snapshot, use gatewayUse, named gatewayapi.RouteConfig) *unstructured.Unstructured {
	routes := s.gateway.routes[routesAt{named.Kind, use.config.Namespace}].Value
	for i := range routes {
		if routes[i].GetName() == named.Name {
			return &routes[i]
		}
	}
	return nil
}

func routesSelected(s snapshot, use gatewayUse, selector gatewayapi.SelectorConfig) []*unstructured.Unstructured {
	routes := s.gateway.routes[routesAt{selector.Kind, use.config.Namespace}].Value
	var selected []*unstructured.Unstructured
	for i := range routes {
		if selector.Selector.Matches(labels.Set(routes[i].GetLabels())) {
			selected = append(selected, &routes[i])
		}
	}
	return selected
}

// checkRoutesExist: each route that the Rollout names exists, and each selector selects
// one.
func checkRoutesExist(s snapshot, ro *v1alpha1.Rollout, use gatewayUse) []Result {
	var results []Result
	for _, at := range use.kinds() {
		switch err := s.gateway.routes[at].Err; {
		case err.kindMissing():
			results = append(results, failure("Namespace "+at.namespace, fmt.Sprintf("the cluster does not serve %ss (%s)", at.kind, gatewayapi.Group), "install the Gateway API's CustomResourceDefinitions of a release and channel that has them"))
			continue
		case err != nil:
			results = append(results, couldNotLook("Namespace "+at.namespace, err))
			continue
		}
		for _, named := range use.config.Routes {
			name := object(string(named.Kind), at.namespace, named.Name)
			switch {
			case named.Kind != at.kind:
			case routeNamed(s, use, named) != nil:
				results = append(results, ok(name, "exists"))
			default:
				results = append(results, failure(name, "does not exist"+because(otherRoutes(s, at)), "create it, or correct its name or namespace in the Rollout: "+editRollout(ro)))
			}
		}
		for _, selector := range use.config.Selectors {
			where := fmt.Sprintf("%ss of namespace %s with labels %q", at.kind, at.namespace, selector.Selector)
			selected := routesSelected(s, use, selector)
			switch {
			case selector.Kind != at.kind:
			case len(selected) == 0:
				results = append(results, failure("Namespace "+at.namespace, "there are no "+where, "label the routes, or correct the selector in the Rollout: "+editRollout(ro)))
			default:
				results = append(results, ok("Namespace "+at.namespace, fmt.Sprintf("%d %s", len(selected), where)))
			}
		}
	}
	return results
}

func otherRoutes(s snapshot, at routesAt) string {
	var names []string
	for _, route := range s.gateway.routes[at].Value {
		names = append(names, route.GetName())
	}
	if len(names) == 0 {
		return fmt.Sprintf("the namespace has no %s", at.kind)
	}
	return "there is " + strings.Join(names, ", ")
}

// checkRouteRules: each route has a rule that the Rollout can split, with both Services,
// and each rule that the configuration names is such a rule.
func checkRouteRules(s snapshot, ro *v1alpha1.Rollout, use gatewayUse) []Result {
	if stable, canary := rolloutspec.Services(ro); stable == "" || canary == "" || stable == canary {
		return nil // reported by services-exist and services-differ
	}
	var results []Result
	for _, route := range routesUsed(s, ro, use) {
		// What the router would do at the next weight, whichever that is.
		_, err := gatewayapi.Apply(route.Unstructured, route.rollout, gatewayapi.Wanted{Weights: &gatewayapi.Weights{Stable: 1, Canary: 1}})
		if err != nil {
			message := strings.TrimPrefix(err.Error(), route.at()+": ")
			results = append(results, failure(route.at(), message, fmt.Sprintf("correct the route: %s; or the Rollout: %s", route.edit(), editRollout(ro))))
			continue
		}
		results = append(results, missingRules(route)...)
		results = append(results, ok(route.at(), "splits "+describeSplits(route)))
	}
	return results
}

// missingRules finds rules that the configuration names and that are not split.
func missingRules(route routeUse) []Result {
	var results []Result
	for _, name := range route.rollout.Rules {
		one := route.rollout
		one.Rules = []string{name}
		if len(gatewayapi.SplitsOf(route.Unstructured, one)) == 0 {
			results = append(results, failure(route.at(), fmt.Sprintf("has no rule named %q with both Services in its backendRefs, which the Rollout singles out", name),
				"correct the name of the rule, or rules in the Rollout's configuration (CRDs older than Gateway API v1.4 drop the names of rules): "+route.edit()))
		}
	}
	return results
}

// describeSplits says how the rules of a route are split.
func describeSplits(route routeUse) string {
	var texts []string
	for _, split := range gatewayapi.SplitsOf(route.Unstructured, route.rollout) {
		texts = append(texts, fmt.Sprintf("%s %s=%d,%s=%d", split.Rule, route.rollout.Stable, split.Stable, route.rollout.Canary, split.Canary))
	}
	return strings.Join(texts, "; ")
}

// routePort returns the port of a Service that a route of the Rollout sends requests to;
// nil where that is not known.
func routePort(s snapshot, ro *v1alpha1.Rollout, uses []gatewayUse, service *corev1.Service) *corev1.ServicePort {
	for _, use := range uses {
		for _, route := range routesUsed(s, ro, use) {
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
