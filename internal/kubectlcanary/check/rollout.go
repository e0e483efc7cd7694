package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutspec"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/gatewayapi"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/kedify"
)

// rolloutsToCheck returns the Rollout that was asked for; without a name, those that
// use one of the routers, or seem meant to, or have steps of the step plugin.
func rolloutsToCheck(s snapshot) []*v1alpha1.Rollout {
	var chosen []*v1alpha1.Rollout
	for i := range s.objects.rollouts.Value {
		ro := &s.objects.rollouts.Value[i]
		if ro.Name == s.rollout || s.rollout == "" && (len(routersOf(ro)) > 0 || routesToNone(ro) || usesSteps(s, ro)) {
			chosen = append(chosen, ro)
		}
	}
	return chosen
}

// checkRolloutsFound: there is a Rollout to check, and it can be read.
func checkRolloutsFound(s snapshot) []Result {
	namespace := "Namespace " + s.namespace
	rollouts := s.objects.rollouts
	var results []Result
	for _, name := range slices.Sorted(maps.Keys(s.objects.unreadable)) {
		if s.rollout == "" || s.rollout == name {
			results = append(results, failure(object("Rollout", s.namespace, name), fmt.Sprintf("cannot be read as a Rollout: %v", s.objects.unreadable[name]),
				fmt.Sprintf("correct it: kubectl -n %s edit rollout %s", s.namespace, name)))
		}
	}
	switch {
	case rollouts.Err.kindMissing():
		return []Result{failure(namespace, "the cluster does not know Rollouts", "install Argo Rollouts with its CustomResourceDefinitions")}
	case rollouts.Err != nil:
		return []Result{couldNotLook(namespace, rollouts.Err)}
	case len(rolloutsToCheck(s)) > 0 || len(results) > 0:
		return results
	case s.rollout != "":
		var names []string
		for _, ro := range rollouts.Value {
			names = append(names, ro.Name)
		}
		slices.Sort(names)
		return []Result{failure(object("Rollout", s.namespace, s.rollout), "does not exist; the namespace has "+cmp.Or(strings.Join(names, ", "), "no Rollout"), "correct the name, or the namespace with -n: kubectl get rollouts --all-namespaces")}
	}
	return []Result{warning(namespace, "no Rollout here uses "+kedify.PluginName+" or "+gatewayapi.DefaultPluginName+", or a step plugin", "choose another namespace with -n, or set "+pluginsField+" in the Rollout")}
}

func checkRolloutFound(r subject) []Result {
	return []Result{ok(object("Rollout", r.ro.Namespace, r.ro.Name), "exists")}
}

// editRollout returns the command that opens a Rollout in an editor.
func editRollout(ro *v1alpha1.Rollout) string {
	return fmt.Sprintf("kubectl -n %s edit rollout %s", ro.Namespace, ro.Name)
}

// checkHealth: what the Rollout's status says, in its own words.
func checkHealth(r subject) []Result {
	ro, status := r.ro, r.ro.Status
	at := object("Rollout", ro.Namespace, ro.Name)
	get := fmt.Sprintf("kubectl argo rollouts -n %s get rollout %s; %s", ro.Namespace, ro.Name, r.controller.logCommand(ro.Name))
	message := strings.TrimSpace(fmt.Sprintf("%s %s", status.Phase, status.Message))
	rests := status.Phase == v1alpha1.RolloutPhaseHealthy || status.Phase == v1alpha1.RolloutPhasePaused
	said, last := r.lastTrouble()
	switch {
	case status.Abort:
		return []Result{warning(at, "is aborted, all traffic is on stable"+because(status.Message), fmt.Sprintf("kubectl argo rollouts -n %s retry rollout %s, or set the stable image again", ro.Namespace, ro.Name))}
	case status.Phase == v1alpha1.RolloutPhaseDegraded:
		return []Result{failure(at, message, get)}
	case !rests && last.After(progressed(ro)):
		return []Result{failure(at, message+"; the controller cannot set a weight: "+said, get)}
	case status.Phase == "", status.ObservedGeneration != "" && status.ObservedGeneration != strconv.FormatInt(ro.Generation, 10):
		return []Result{warning(at, "the controller has not acted on the last change yet", "try again in a moment; if it stays so: "+get)}
	}
	return []Result{ok(at, message)}
}

// lastTrouble returns the last thing that the controller could not do about the Rollout's
// traffic, and when, by its Events; earlier ones are about another Rollout of the name.
func (r subject) lastTrouble() (message string, last time.Time) {
	for _, event := range r.objects.events {
		at := event.LastTimestamp.Time
		if event.Series != nil && event.Series.LastObservedTime.After(at) {
			at = event.Series.LastObservedTime.Time
		}
		if at.IsZero() {
			at = event.EventTime.Time
		}
		if event.InvolvedObject.Name == r.ro.Name && at.After(r.ro.CreationTimestamp.Time) && at.After(last) {
			message, last = event.Message, at
		}
	}
	return message, last
}

// progressed returns when a Rollout has last got on.
func progressed(ro *v1alpha1.Rollout) time.Time {
	for _, c := range ro.Status.Conditions {
		if c.Type == v1alpha1.RolloutProgressing && c.Status != corev1.ConditionFalse {
			return c.LastUpdateTime.Time
		}
	}
	return time.Time{}
}

// stepsDone returns the present step of a Rollout, and those before it, the last one first.
func stepsDone(ro *v1alpha1.Rollout) []v1alpha1.CanaryStep {
	i := ro.Status.CurrentStepIndex
	if i == nil || int(*i) >= len(ro.Spec.Strategy.Canary.Steps) {
		return nil
	}
	done := slices.Clone(ro.Spec.Strategy.Canary.Steps[:*i+1])
	slices.Reverse(done)
	return done
}

// pendingWeight returns the canary weight that the present step asks for, and
// whether a canary is under way at all.
func pendingWeight(ro *v1alpha1.Rollout) (weight int32, underWay bool) {
	status := ro.Status
	if status.Abort || status.StableRS == "" || status.StableRS == status.CurrentPodHash {
		return 0, false
	}
	done := stepsDone(ro)
	if len(done) == 0 {
		return rolloutspec.MaxWeight(ro), true
	}
	for _, step := range done {
		if step.SetWeight != nil {
			return *step.SetWeight, true
		}
	}
	return 0, true
}

// weightsOf returns the weights that the controller has set last: everything
// on stable before the first time.
func weightsOf(ro *v1alpha1.Rollout) v1alpha1.TrafficWeights {
	if ro.Status.Canary.Weights == nil {
		return v1alpha1.TrafficWeights{
			Stable: v1alpha1.WeightDestination{Weight: rolloutspec.MaxWeight(ro), PodTemplateHash: ro.Status.StableRS},
			Canary: v1alpha1.WeightDestination{PodTemplateHash: ro.Status.CurrentPodHash},
		}
	}
	return *ro.Status.Canary.Weights
}
