package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutspec"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/kedify"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

// checkAnnotations: each HTTPScaledObject carries the split that the Rollout's
// status says, set by this Rollout; no other HTTPScaledObject carries a split of it.
func checkAnnotations(s snapshot, ro *v1alpha1.Rollout, config kedify.Config) []Result {
	if s.objects.httpScaledObjects.Err != nil {
		return nil // reported by httpscaledobject-exists
	}
	var results []Result
	for _, o := range s.objects.httpScaledObjects.Value {
		switch {
		case slices.Contains(config.Names(), o.Name):
			results = append(results, checkSplit(s, ro, o))
		case o.Annotations[weightedbackends.OwnerAnnotation] == ro.Name:
			results = append(results, failure(object("HTTPScaledObject", o.Namespace, o.Name),
				fmt.Sprintf("carries a split of Rollout %s, which does not name it", ro.Name),
				"the controller takes it off where it may list and watch (see controller-access); by hand: "+removeCommand(o)))
		}
	}
	return results
}

// checkOrphans finds splits whose Rollout is gone, or does not use kedify/http
// any more, and splits without owner, on HTTPScaledObjects that no Rollout names:
// no other check would find them.
func checkOrphans(s snapshot) []Result {
	if s.rollout != "" || s.objects.rollouts.Err != nil {
		return nil
	}
	var results []Result
	remedy := "take it off: "
	if p := s.plugin(kedify.PluginName); p != nil && p.selfHeals {
		remedy = "the plugin takes it off within a minute where it runs and may list and watch (see controller-access); by hand: "
	}
	for _, o := range s.objects.httpScaledObjects.Value {
		owner, owned := o.Annotations[weightedbackends.OwnerAnnotation]
		split, present := o.Annotations[weightedbackends.Annotation]
		at := object("HTTPScaledObject", o.Namespace, o.Name)
		if !present && owner == "" || namedBySomebody(s, o.Name) {
			continue
		}
		if !owned {
			results = append(results, warning(at, fmt.Sprintf("carries a split that names no owner, and no Rollout names the HTTPScaledObject: %s", strings.Join(strings.Fields(split), " ")),
				"if nothing else splits its traffic, make sure that its scaleTargetRef.service has endpoints, and take it off: "+removeCommand(o)))
			continue
		}
		ro := s.objects.rollout(owner)
		if ro != nil && (kedify.Uses(ro) || nearPlugin(ro, kedifyRouter) != "") {
			continue
		}
		why := "does not exist"
		if ro != nil {
			why = "does not use " + kedify.PluginName + " any more"
		}
		results = append(results, failure(at,
			fmt.Sprintf("carries a split of Rollout %s, which %s, and no Rollout names it", owner, why), remedy+removeCommand(o)))
	}
	return results
}

func namedBySomebody(s snapshot, name string) bool {
	for i := range s.objects.rollouts.Value {
		ro := &s.objects.rollouts.Value[i]
		if !kedify.Uses(ro) {
			continue
		}
		config, err := kedify.ParseConfig(ro.Spec.Strategy.Canary.TrafficRouting.Plugins[kedify.PluginName])
		if err == nil && slices.Contains(config.Names(), name) {
			return true
		}
	}
	return false
}

func removeCommand(o httpScaledObject) string {
	return fmt.Sprintf("kubectl -n %s annotate httpscaledobject %s %s- %s-", o.Namespace, o.Name, weightedbackends.Annotation, weightedbackends.OwnerAnnotation)
}

// checkSplit compares one HTTPScaledObject with the Rollout that names it.
func checkSplit(s snapshot, ro *v1alpha1.Rollout, o httpScaledObject) Result {
	at := object("HTTPScaledObject", o.Namespace, o.Name)
	value, present := o.Annotations[weightedbackends.Annotation]
	owner, owned := o.Annotations[weightedbackends.OwnerAnnotation]
	log := s.controller.logCommand(`httpscaled\|forbidden`)
	said := lastComplaint(s, ro).message

	if present && owned && owner != ro.Name {
		other := s.objects.rollout(owner)
		if other != nil && kedify.Owns(other, o.Name) {
			return failure(at, fmt.Sprintf("carries the split of Rollout %s, so Rollout %s cannot set its own", owner, ro.Name),
				fmt.Sprintf("give each Rollout an HTTPScaledObject of its own; if the split of %s is left over: %s", owner, removeCommand(o)))
		}
		why := "does not exist"
		if other != nil {
			why = "does not name it"
		}
		return failure(at, fmt.Sprintf("carries the split of Rollout %s, which %s", owner, why),
			fmt.Sprintf("Rollout %s takes it over at its next setWeight; until then: %s", ro.Name, removeCommand(o)))
	}
	weights := weightsOf(ro)
	want, err := kedify.DesiredSplit(ro, weights.Canary.Weight, weights.Additional)
	if err != nil {
		return failure(at, fmt.Sprintf("Rollout %s asks for a split that cannot be: %v", ro.Name, err), fmt.Sprintf("kubectl -n %s edit rollout %s", ro.Namespace, ro.Name))
	}
	if !present {
		return absentSplit(s, ro, o, want, said, log)
	}
	split, err := weightedbackends.Parse(value)
	if err != nil {
		return failure(at, fmt.Sprintf("%s cannot be read: %v", weightedbackends.Annotation, err),
			"the controller writes it anew at its next reconcile if it may (see controller-access); by hand: "+removeCommand(o))
	}
	for _, backend := range split {
		if !slices.ContainsFunc(want, func(b weightedbackends.Backend) bool { return b.Service == backend.Service }) && !isService(ro, backend.Service) {
			return failure(at, fmt.Sprintf("%s names Service %s, which is none of Rollout %s (%s)", weightedbackends.Annotation, backend.Service, ro.Name, weightedbackends.Describe(split)),
				"the controller writes it anew at its next reconcile; if it does not: "+log)
		}
	}
	switch {
	case !sameSplit(split, want):
		message := fmt.Sprintf("carries %s, the Rollout's status says %s", weightedbackends.Describe(split), weightedbackends.Describe(want))
		if said != "" {
			message += "; the controller last said: " + said
		}
		remedy := "the controller writes it anew at its next reconcile; if it does not: " + log
		if len(want) == 0 {
			remedy += "; by hand: " + removeCommand(o)
		}
		return failure(at, message, remedy)
	case !owned:
		return warning(at, fmt.Sprintf("the split %s does not say who set it (%s is missing): by hand, or by another tool", weightedbackends.Describe(split), weightedbackends.OwnerAnnotation),
			"the controller adds it at its next reconcile; if it does not: "+log)
	}
	if result, pending := notSetYet(s, ro, at, said, log); pending {
		return result
	}
	return ok(at, weightedbackends.Describe(split)+", as the Rollout's status says")
}

// absentSplit judges an HTTPScaledObject without a split.
func absentSplit(s snapshot, ro *v1alpha1.Rollout, o httpScaledObject, want []weightedbackends.Backend, said, log string) Result {
	at := object("HTTPScaledObject", o.Namespace, o.Name)
	// Before the first reconcile of a Rollout with pingPong nothing is set yet.
	expected := len(want) > 0 && ro.Status.Canary.Weights != nil
	switch {
	case expected:
		message := fmt.Sprintf("carries no split, the Rollout's status says %s", weightedbackends.Describe(want))
		if said != "" {
			message += "; the controller last said: " + said
		}
		return failure(at, message, "the controller writes it anew at its next reconcile; if it does not: "+log)
	case hasOwner(o):
		return warning(at, fmt.Sprintf("carries %s, but no split", weightedbackends.OwnerAnnotation), removeCommand(o))
	}
	if result, pending := notSetYet(s, ro, at, said, log); pending {
		return result
	}
	return ok(at, "no split: all traffic goes to stable, as the Rollout's status says")
}

func hasOwner(o httpScaledObject) bool {
	_, found := o.Annotations[weightedbackends.OwnerAnnotation]
	return found
}

// notSetYet finds a setWeight step that has not been carried out although both
// sides have their pods. It is a failure when the controller says why.
func notSetYet(s snapshot, ro *v1alpha1.Rollout, at, said, log string) (Result, bool) {
	asked, underWay := pendingWeight(ro)
	weights := weightsOf(ro)
	if !underWay || ro.Status.PromoteFull || asked == weights.Canary.Weight || !sidesScaled(s, ro, asked) {
		return Result{}, false
	}
	step := "the end of its steps"
	if i := ro.Status.CurrentStepIndex; i != nil && int(*i) < len(ro.Spec.Strategy.Canary.Steps) {
		step = fmt.Sprintf("step %d of %d", *i+1, len(ro.Spec.Strategy.Canary.Steps))
	}
	message := fmt.Sprintf("Rollout %s asks for weight %d at %s, but has set %d", ro.Name, asked, step, weights.Canary.Weight)
	if said != "" {
		return failure(at, message+"; the controller says: "+said, complaintRemedy(s.controller, ro, said, log)), true
	}
	return warning(at, message, "try again in a moment; if it stays so: "+log), true
}

// sidesScaled tells whether both ReplicaSets have the pods that the controller
// waits for before it sets a weight.
func sidesScaled(s snapshot, ro *v1alpha1.Rollout, asked int32) bool {
	canary, stable := s.objects.replicaSet(ro.Status.CurrentPodHash), s.objects.replicaSet(ro.Status.StableRS)
	if canary == nil || stable == nil || canary.Spec.Replicas == nil || ro.Spec.Replicas == nil {
		return false
	}
	most := rolloutspec.MaxWeight(ro)
	return *canary.Spec.Replicas > 0 && canary.Status.AvailableReplicas >= *canary.Spec.Replicas &&
		int64(stable.Status.AvailableReplicas) >= int64(most-asked)*int64(*ro.Spec.Replicas)/int64(most)
}

// isService tells whether a Service is one of the Rollout's two.
func isService(ro *v1alpha1.Rollout, name string) bool {
	first, second := serviceNames(ro)
	return name == first || name == second
}

// sameSplit compares two splits regardless of their order, which does not
// change where traffic goes.
func sameSplit(a, b []weightedbackends.Backend) bool {
	byService := func(x, y weightedbackends.Backend) int { return strings.Compare(x.Service, y.Service) }
	return slices.Equal(slices.SortedFunc(slices.Values(a), byService), slices.SortedFunc(slices.Values(b), byService))
}
