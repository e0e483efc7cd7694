package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutspec"
)

// serviceFields returns the fields of the Rollout that name its two Services.
func serviceFields(ro *v1alpha1.Rollout) (first, second string) {
	if ro.Spec.Strategy.Canary.PingPong != nil {
		return "spec.strategy.canary.pingPong.pingService", "spec.strategy.canary.pingPong.pongService"
	}
	return "spec.strategy.canary.stableService", "spec.strategy.canary.canaryService"
}

// serviceNames returns the names of the Rollout's two Services, from these fields.
func serviceNames(ro *v1alpha1.Rollout) (first, second string) {
	if pingPong := ro.Spec.Strategy.Canary.PingPong; pingPong != nil {
		return pingPong.PingService, pingPong.PongService
	}
	return ro.Spec.Strategy.Canary.StableService, ro.Spec.Strategy.Canary.CanaryService
}

// checkServicesExist: both Services are named, and exist.
func checkServicesExist(s snapshot, ro *v1alpha1.Rollout) []Result {
	firstField, secondField := serviceFields(ro)
	first, second := serviceNames(ro)
	var results []Result
	unread := false
	for _, named := range []struct{ field, name string }{{firstField, first}, {secondField, second}} {
		field, name := named.field, named.name
		switch {
		case name == "":
			results = append(results, failure(object("Rollout", ro.Namespace, ro.Name), field+" is missing: a split needs two Services", "name the Service of that side: "+editRollout(ro)))
		case s.objects.services.Err != nil:
			unread = true
		case s.objects.service(name) == nil:
			results = append(results, failure(object("Service", ro.Namespace, name), "does not exist; "+field+" names it",
				fmt.Sprintf("create it, with the Rollout's pods as selector, or correct the name: %s", editRollout(ro))))
		default:
			results = append(results, ok(object("Service", ro.Namespace, name), "exists"))
		}
	}
	if unread {
		results = append(results, couldNotLook("Namespace "+ro.Namespace, s.objects.services.Err))
	}
	return results
}

// checkServicesDiffer: the two sides have different Services.
func checkServicesDiffer(_ snapshot, ro *v1alpha1.Rollout) []Result {
	at := object("Rollout", ro.Namespace, ro.Name)
	firstField, secondField := serviceFields(ro)
	first, second := serviceNames(ro)
	switch {
	case first == "" || second == "":
		return nil // reported by services-exist
	case first == second:
		return []Result{failure(at, fmt.Sprintf("%s and %s are both %q: a split needs two Services", firstField, secondField, first), "make a second Service and name it: "+editRollout(ro))}
	}
	return []Result{ok(at, first+" and "+second)}
}

// checkSelectors: the two Services select the two sides of this Rollout, and
// no other Rollout moves them.
func checkSelectors(s snapshot, ro *v1alpha1.Rollout) []Result {
	stable, canary := rolloutspec.Services(ro)
	if s.objects.services.Err != nil || stable == canary {
		return nil // reported by services-exist and services-differ
	}
	var results []Result
	hashes := map[string]string{}
	for _, name := range []string{stable, canary} {
		service := s.objects.service(name)
		if service == nil {
			continue
		}
		at := object("Service", ro.Namespace, name)
		edit := fmt.Sprintf("kubectl -n %s edit service %s", ro.Namespace, name)
		if other := otherUser(s, ro, name); other != "" {
			results = append(results, failure(at, fmt.Sprintf("Rollout %s uses it too: the two move its selector to and fro", other), "give each Rollout Services of its own"))
		}
		own := maps.Clone(service.Spec.Selector)
		hashes[name] = own[v1alpha1.DefaultRolloutUniqueLabelKey]
		delete(own, v1alpha1.DefaultRolloutUniqueLabelKey)
		labels := ro.Spec.Template.Labels
		switch {
		case len(service.Spec.Selector) == 0:
			results = append(results, failure(at, "has no selector, so no endpoints", "select the Rollout's pods: "+edit))
		case ro.Spec.WorkloadRef == nil && !isSubset(own, labels):
			results = append(results, failure(at, fmt.Sprintf("selects %s, but the Rollout's pods are labelled %s", labelText(own), labelText(labels)), "correct spec.selector: "+edit))
		}
	}
	weight := weightsOf(ro).Canary.Weight
	switch {
	case len(hashes) < 2 || weight == 0:
	case hashes[stable] == "" || hashes[canary] == "":
		results = append(results, failure(at2(ro, stable, canary),
			fmt.Sprintf("a Service's selector has no %s while the canary has weight %d: it takes in the pods of both sides", v1alpha1.DefaultRolloutUniqueLabelKey, weight),
			fmt.Sprintf("something takes the selector back that Argo Rollouts sets (GitOps: ignore differences at /spec/selector); kubectl -n %s get services %s %s -o wide", ro.Namespace, stable, canary)))
	case hashes[stable] == hashes[canary]:
		results = append(results, failure(at2(ro, stable, canary),
			fmt.Sprintf("both select the pods of hash %s while the canary has weight %d: the split has one side only", hashes[stable], weight),
			fmt.Sprintf("something takes the selector back that Argo Rollouts sets (GitOps: ignore differences at /spec/selector); kubectl -n %s get services %s %s -o wide", ro.Namespace, stable, canary)))
	}
	if len(results) == 0 && len(hashes) == 2 {
		results = append(results, ok(at2(ro, stable, canary), "select the Rollout's pods"))
	}
	return results
}

func at2(ro *v1alpha1.Rollout, stable, canary string) string {
	return object("Service", ro.Namespace, stable) + ", " + canary
}

// otherUser returns another Rollout of the namespace that names the Service.
func otherUser(s snapshot, ro *v1alpha1.Rollout, service string) string {
	for _, other := range s.objects.rollouts.Value {
		if other.Name == ro.Name {
			continue
		}
		if c := other.Spec.Strategy.Canary; c != nil {
			names := []string{c.StableService, c.CanaryService}
			if c.PingPong != nil {
				names = append(names, c.PingPong.PingService, c.PingPong.PongService)
			}
			if slices.Contains(names, service) {
				return other.Name
			}
		}
		if b := other.Spec.Strategy.BlueGreen; b != nil && (b.ActiveService == service || b.PreviewService == service) {
			return other.Name
		}
	}
	return ""
}

func labelText(labels map[string]string) string {
	if len(labels) == 0 {
		return "nothing"
	}
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, key+"="+labels[key])
	}
	return strings.Join(pairs, ",")
}
