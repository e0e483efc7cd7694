package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutspec"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/kedify"
)

// rolloutsToCheck returns the Rollout that was asked for; without a name, those that
// use the plugin, or mean to.
func rolloutsToCheck(s snapshot) []*v1alpha1.Rollout {
	var chosen []*v1alpha1.Rollout
	for i := range s.objects.rollouts.Value {
		ro := &s.objects.rollouts.Value[i]
		if ro.Name == s.rollout || s.rollout == "" && (kedify.Uses(ro) || nearPlugin(ro) != "") {
			chosen = append(chosen, ro)
		}
	}
	return chosen
}

// checkRolloutsFound: there is a Rollout to check.
func checkRolloutsFound(s snapshot) []Result {
	namespace := "Namespace " + s.namespace
	rollouts := s.objects.rollouts
	switch {
	case rollouts.Err.kindMissing():
		return []Result{failure(namespace, "the cluster does not know Rollouts", "install Argo Rollouts with its CustomResourceDefinitions")}
	case rollouts.Err != nil:
		return []Result{couldNotLook(namespace, rollouts.Err)}
	case len(rolloutsToCheck(s)) > 0:
		return nil
	case s.rollout != "":
		return []Result{failure(object("Rollout", s.namespace, s.rollout), "does not exist"+because(otherNames(rollouts.Value)), "kubectl -n "+s.namespace+" get rollouts")}
	}
	return []Result{warning(namespace, "no Rollout here uses "+kedify.PluginName, "choose another namespace with -n, or set spec.strategy.canary.trafficRouting.plugins in the Rollout")}
}

func checkRolloutFound(_ snapshot, ro *v1alpha1.Rollout) []Result {
	return []Result{ok(object("Rollout", ro.Namespace, ro.Name), "exists")}
}

func otherNames(rollouts []v1alpha1.Rollout) string {
	names := make([]string, len(rollouts))
	for i, ro := range rollouts {
		names[i] = ro.Name
	}
	slices.Sort(names)
	if len(names) == 0 {
		return "the namespace has no Rollout"
	}
	return "there is " + strings.Join(names, ", ")
}

func plugins(ro *v1alpha1.Rollout) []string {
	canary := ro.Spec.Strategy.Canary
	if canary == nil || canary.TrafficRouting == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(canary.TrafficRouting.Plugins))
}

// nearPlugin returns a plugin of the Rollout whose name looks like a mistyped
// kedify/http, or "".
func nearPlugin(ro *v1alpha1.Rollout) string {
	for _, name := range plugins(ro) {
		if resembles(name) {
			return name
		}
	}
	return ""
}

// checkStrategy: the Rollout is a canary.
func checkStrategy(_ snapshot, ro *v1alpha1.Rollout) []Result {
	at := object("Rollout", ro.Namespace, ro.Name)
	if ro.Spec.Strategy.Canary == nil {
		return []Result{failure(at, "spec.strategy.canary is missing: only the canary strategy splits traffic", "move the Rollout to spec.strategy.canary: "+editRollout(ro))}
	}
	return []Result{ok(at, "canary")}
}

// kedifyConfig reads the configuration of a Rollout for kedify/http.
func kedifyConfig(ro *v1alpha1.Rollout) (kedify.Config, error) {
	if !kedify.Uses(ro) {
		return kedify.Config{}, fmt.Errorf("spec.strategy.canary.trafficRouting.plugins has no %s", kedify.PluginName)
	}
	config, err := kedify.ParseConfig(ro.Spec.Strategy.Canary.TrafficRouting.Plugins[kedify.PluginName])
	if err != nil {
		return kedify.Config{}, fmt.Errorf("spec.strategy.canary.trafficRouting.plugins[%q]: %w", kedify.PluginName, err)
	}
	return config, nil
}

// checkConfig: the Rollout uses kedify/http, with a configuration that the plugin
// accepts.
func checkConfig(_ snapshot, ro *v1alpha1.Rollout) []Result {
	if ro.Spec.Strategy.Canary == nil {
		return nil // reported by rollout-strategy
	}
	at := object("Rollout", ro.Namespace, ro.Name)
	config, err := kedifyConfig(ro)
	switch near := nearPlugin(ro); {
	case err == nil:
		return []Result{ok(at, "names HTTPScaledObject "+strings.Join(config.Names(), ", "))}
	case kedify.Uses(ro):
		return []Result{failure(at, err.Error(), "correct it: "+editRollout(ro))}
	case near != "":
		err = fmt.Errorf("%w, but %q", err, near)
	}
	return []Result{failure(at, err.Error(), fmt.Sprintf("set plugins[%q].httpScaledObjectName: %s", kedify.PluginName, editRollout(ro)))}
}

// editRollout returns the command that opens a Rollout in an editor.
func editRollout(ro *v1alpha1.Rollout) string {
	return fmt.Sprintf("kubectl -n %s edit rollout %s", ro.Namespace, ro.Name)
}

// checkHealth: the controller acts on the Rollout, and says nothing bad of it.
func checkHealth(s snapshot, ro *v1alpha1.Rollout) []Result {
	at := object("Rollout", ro.Namespace, ro.Name)
	get := fmt.Sprintf("kubectl argo rollouts -n %s get rollout %s", ro.Namespace, ro.Name)
	for _, condition := range ro.Status.Conditions {
		if condition.Type == v1alpha1.InvalidSpec && condition.Status == corev1.ConditionTrue {
			return []Result{failure(at, "Argo Rollouts refuses the spec: "+condition.Message, fmt.Sprintf("correct it: kubectl -n %s edit rollout %s", ro.Namespace, ro.Name))}
		}
	}
	namespace, workload := s.controller.name()
	log := fmt.Sprintf("kubectl -n %s logs %s | grep %s", namespace, workload, ro.Name)
	said := lastComplaint(s, ro).message
	switch {
	case ro.Status.ObservedGeneration != "" && ro.Status.ObservedGeneration != strconv.FormatInt(ro.Generation, 10),
		ro.Status.ObservedGeneration == "" && ro.Status.Phase == "":
		if said != "" {
			return []Result{failure(at, "the controller cannot act on the last change: "+said, complaintRemedy(s.controller, said, log))}
		}
		return []Result{warning(at, "the controller has not acted on the last change yet", "try again in a moment; if it stays so: "+log)}
	case ro.Status.Abort:
		return []Result{warning(at, "is aborted, all traffic is on stable"+because(ro.Status.Message), fmt.Sprintf("kubectl argo rollouts -n %s retry rollout %s, or set the stable image again", ro.Namespace, ro.Name))}
	case ro.Status.Phase == v1alpha1.RolloutPhaseDegraded:
		message := "is Degraded" + because(ro.Status.Message)
		if said != "" {
			message += "; the controller last said: " + said
		}
		return []Result{failure(at, message, get)}
	case ro.Status.Canary.Weights == nil && said != "" && kedify.Uses(ro):
		return []Result{failure(at, "the controller cannot set its weight: "+said, complaintRemedy(s.controller, said, log))}
	}
	message := string(ro.Status.Phase)
	if ro.Status.Message != "" {
		message += " (" + ro.Status.Message + ")"
	}
	return []Result{ok(at, message)}
}

// complaintRemedy says what to do about a reconcile that fails.
func complaintRemedy(c controllerSnapshot, said, log string) string {
	switch {
	case strings.Contains(said, "not configured in configmap"):
		return fmt.Sprintf("register %s in %s (see plugin-registered), then %s", kedify.PluginName, c.configObject(), c.restartCommand())
	case strings.Contains(said, "exec format error"):
		return "the asset is for another platform (see plugin-platform): correct location and sha256, then " + c.restartCommand()
	case strings.Contains(said, "forbidden"):
		return "apply deploy/rbac (see controller-access); " + c.logCommand(`httpscaled\|forbidden`)
	}
	return log
}

// pendingWeight returns the canary weight that the present step asks for, and
// whether a canary is under way at all.
func pendingWeight(ro *v1alpha1.Rollout) (weight int32, underWay bool) {
	status := ro.Status
	if status.Abort || status.StableRS == "" || status.StableRS == status.CurrentPodHash {
		return 0, false
	}
	steps := ro.Spec.Strategy.Canary.Steps
	if status.CurrentStepIndex == nil || int(*status.CurrentStepIndex) >= len(steps) {
		return rolloutspec.MaxWeight(ro), true
	}
	for i := int(*status.CurrentStepIndex); i >= 0; i-- {
		if steps[i].SetWeight != nil {
			return *steps[i].SetWeight, true
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
