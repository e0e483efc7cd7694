package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/kedify"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

// checkOrphans finds splits that no Rollout will take off: on HTTPScaledObjects that no Rollout
// names, of a Rollout that is gone, or that does not use kedify/http any more, or of nobody.
func checkOrphans(s snapshot) []Result {
	if s.rollout != "" || !s.objects.allRollouts() {
		return nil
	}
	var results []Result
	for _, o := range s.objects.httpScaledObjects.Value {
		owner := o.Annotations[weightedbackends.OwnerAnnotation]
		split, present := o.Annotations[weightedbackends.Annotation]
		named := slices.ContainsFunc(s.objects.rollouts.Value, func(ro v1alpha1.Rollout) bool { return slices.Contains(kedifyNames(&ro), o.Name) })
		ro := s.objects.rollout(owner)
		meant := ro != nil && slices.ContainsFunc(routersOf(ro), func(use routerUse) bool { return use.router == kedify.PluginName })
		if !present && owner == "" || named || meant {
			continue // the last is reported by rollout-config
		}
		at := object("HTTPScaledObject", o.Namespace, o.Name)
		of, result, remedy := "Rollout "+owner, failure, "the plugin takes it off within a minute where it runs and may list and watch (see controller-access); by hand: "
		if owner == "" {
			of, result, remedy = "nobody", warning, "if nothing else splits its traffic, take it off: "
		}
		message := fmt.Sprintf("carries a split of %s, and no Rollout names it", of) + because(strings.Join(strings.Fields(split), " "))
		results = append(results, result(at, message, remedy+removeCommand(o)))
	}
	return results
}

func removeCommand(o httpScaledObject) string {
	return fmt.Sprintf("kubectl -n %s annotate httpscaledobject %s %s- %s-", o.Namespace, o.Name, weightedbackends.Annotation, weightedbackends.OwnerAnnotation)
}

// checkSplit: an HTTPScaledObject carries the split that the Rollout's status says, set by this
// Rollout.
func checkSplit(r subject, o httpScaledObject) []Result {
	at := object("HTTPScaledObject", o.Namespace, o.Name)
	value, present := o.Annotations[weightedbackends.Annotation]
	owner, owned := o.Annotations[weightedbackends.OwnerAnnotation]
	log := r.controller.logCommand(`httpscaled\|forbidden`)
	rewritten := "the controller writes it anew at its next reconcile if it may (see controller-access); if it does not: " + log
	weights := weightsOf(r.ro)
	want, err := kedify.DesiredSplit(r.ro, weights.Canary.Weight, weights.Additional)
	if err != nil {
		return []Result{failure(at, fmt.Sprintf("Rollout %s asks for a split that cannot be: %v", r.ro.Name, err), editRollout(r.ro))}
	}
	if owner != r.ro.Name && present && owned {
		return []Result{checkOwner(r, o, owner)}
	}
	split, err := weightedbackends.Parse(value)
	switch {
	case !present && owned:
		return []Result{warning(at, fmt.Sprintf("carries %s, but no split", weightedbackends.OwnerAnnotation), removeCommand(o))}
	// Before the first reconcile of a Rollout with pingPong nothing is set yet.
	case !present && len(want) > 0 && r.ro.Status.Canary.Weights != nil:
		return []Result{failure(at, "carries no split, the Rollout's status says "+weightedbackends.Describe(want), rewritten)}
	case !present:
		return []Result{ok(at, "no split: all traffic goes to stable, as the Rollout's status says")}
	case err != nil:
		return []Result{failure(at, fmt.Sprintf("%s cannot be read: %v", weightedbackends.Annotation, err), rewritten+"; by hand: "+removeCommand(o))}
	case !sameSplit(split, want):
		return []Result{failure(at, fmt.Sprintf("carries %s, the Rollout's status says %s", weightedbackends.Describe(split), weightedbackends.Describe(want)), rewritten+"; by hand, at rest: "+removeCommand(o))}
	case !owned:
		return []Result{warning(at, fmt.Sprintf("the split %s does not say who set it (%s is missing): by hand, or by another tool", weightedbackends.Describe(split), weightedbackends.OwnerAnnotation), rewritten)}
	}
	return []Result{ok(at, weightedbackends.Describe(split)+", as the Rollout's status says")}
}

// checkOwner looks at an HTTPScaledObject with the split of another Rollout.
func checkOwner(r subject, o httpScaledObject, owner string) Result {
	at := object("HTTPScaledObject", o.Namespace, o.Name)
	if other := r.objects.rollout(owner); other != nil && kedify.Owns(other, o.Name) {
		return failure(at, fmt.Sprintf("carries the split of Rollout %s, so Rollout %s cannot set its own", owner, r.ro.Name),
			fmt.Sprintf("give each Rollout an HTTPScaledObject of its own; if the split of %s is left over: %s", owner, removeCommand(o)))
	}
	return failure(at, fmt.Sprintf("carries the split of Rollout %s, which does not exist, or does not name it", owner),
		fmt.Sprintf("Rollout %s takes it over at its next setWeight; until then: %s", r.ro.Name, removeCommand(o)))
}

// sameSplit compares two splits regardless of their order, which does not
// change where traffic goes.
func sameSplit(a, b []weightedbackends.Backend) bool {
	byService := func(x, y weightedbackends.Backend) int { return strings.Compare(x.Service, y.Service) }
	return slices.Equal(slices.SortedFunc(slices.Values(a), byService), slices.SortedFunc(slices.Values(b), byService))
}
