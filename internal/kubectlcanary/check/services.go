package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutspec"
)

// checkServicesExist: both Services exist. Argo Rollouts does not notice at once that one at rest
// is gone.
func checkServicesExist(r subject) []Result {
	if err := r.objects.services.Err; err != nil {
		return []Result{couldNotLook("Namespace "+r.ro.Namespace, err)}
	}
	var results []Result
	stable, canary := rolloutspec.Services(r.ro)
	for _, name := range []string{stable, canary} {
		at := object("Service", r.ro.Namespace, name)
		switch {
		case name == "" || !r.configured(): // reported by rollout-health, in the controller's words
		case r.objects.service(name) == nil:
			results = append(results, failure(at, "does not exist, and the Rollout names it", "create it, with the Rollout's pods as selector, or correct the name: "+editRollout(r.ro)))
		default:
			results = append(results, ok(at, "exists"))
		}
	}
	return results
}

// checkSelectors: the two Services select the two sides of this Rollout.
func checkSelectors(r subject) []Result {
	stable, canary := rolloutspec.Services(r.ro)
	first, second := r.objects.service(stable), r.objects.service(canary)
	if !r.configured() || first == nil || second == nil || stable == canary {
		return nil // reported by rollout-health, in the controller's words
	}
	const hash = v1alpha1.DefaultRolloutUniqueLabelKey
	for _, service := range []string{stable, canary} {
		own := maps.Clone(r.objects.service(service).Spec.Selector)
		delete(own, hash)
		if r.ro.Spec.WorkloadRef == nil && !isSubset(own, r.ro.Spec.Template.Labels) {
			return []Result{failure(object("Service", r.ro.Namespace, service), fmt.Sprintf("selects %s, but the Rollout's pods are labelled %s", labelText(own), labelText(r.ro.Spec.Template.Labels)),
				fmt.Sprintf("correct spec.selector: kubectl -n %s edit service %s", r.ro.Namespace, service))}
		}
	}
	at := object("Service", r.ro.Namespace, stable) + ", " + canary
	back := fmt.Sprintf("something removes from the selector what Argo Rollouts adds: have your GitOps tool leave the selector alone; kubectl -n %s get services %s %s -o wide", r.ro.Namespace, stable, canary)
	of, weight := first.Spec.Selector[hash], weightsOf(r.ro).Canary.Weight
	switch {
	case weight == 0:
	case of == "" || second.Spec.Selector[hash] == "":
		return []Result{failure(at, fmt.Sprintf("a Service's selector has no %s while the canary has weight %d: it takes in the pods of both sides", hash, weight), back)}
	case of == second.Spec.Selector[hash]:
		return []Result{failure(at, fmt.Sprintf("both select the pods of hash %s while the canary has weight %d: the split has one side only", of, weight), back)}
	}
	return []Result{ok(at, "select the Rollout's pods")}
}

func labelText(labels map[string]string) string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, key+"="+labels[key])
	}
	return strings.Join(pairs, ",")
}
