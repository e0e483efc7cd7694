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

// checkRollouts finds the Rollouts to check, and checks each.
func checkRollouts(s snapshot) []Result {
	const check = "rollout-found"
	namespace := "Namespace " + s.namespace
	rollouts := s.objects.rollouts
	if rollouts.Err != nil {
		if rollouts.Err.kindMissing() {
			return []Result{failure(check, namespace, "the cluster does not know Rollouts", "install Argo Rollouts with its CustomResourceDefinitions")}
		}
		return []Result{couldNotLook(check, namespace, rollouts.Err)}
	}
	if s.rollout != "" {
		ro := s.objects.rollout(s.rollout)
		if ro == nil {
			return []Result{failure(check, object("Rollout", s.namespace, s.rollout), "does not exist"+because(otherNames(rollouts.Value)), "kubectl -n "+s.namespace+" get rollouts")}
		}
		return checkRollout(s, ro)
	}
	var results []Result
	for i := range rollouts.Value {
		if ro := &rollouts.Value[i]; kedify.Uses(ro) || nearPlugin(ro) != "" {
			results = append(results, checkRollout(s, ro)...)
		}
	}
	if len(results) == 0 {
		results = append(results, warning(check, namespace, "no Rollout here uses "+kedify.PluginName, "choose another namespace with -n, or set spec.strategy.canary.trafficRouting.plugins in the Rollout"))
	}
	return append(checkOrphans(s), results...)
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

// checkRollout makes every check of one Rollout. A Rollout whose configuration
// cannot be read has nothing more to look at.
func checkRollout(s snapshot, ro *v1alpha1.Rollout) []Result {
	results := []Result{ok("rollout-found", object("Rollout", ro.Namespace, ro.Name), "exists")}
	found, config, sound := checkConfig(ro)
	results = append(results, found...)
	results = append(results, checkHealth(s, ro)...)
	if sound {
		results = append(results, checkServices(s, ro)...)
		results = append(results, checkSelectors(s, ro)...)
		results = append(results, checkHTTPScaledObjects(s, ro, config)...)
		results = append(results, checkAnnotations(s, ro, config)...)
		results = append(results, checkBackends(s, ro, config)...)
		results = append(results, checkProxies(s, ro, config)...)
		results = append(results, checkScaling(s, ro)...)
	}
	for i := range results {
		results[i].Rollout = ro.Namespace + "/" + ro.Name
	}
	return results
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

// checkConfig: the Rollout is a canary that uses kedify/http, with a
// configuration that the plugin accepts.
func checkConfig(ro *v1alpha1.Rollout) (results []Result, config kedify.Config, sound bool) {
	at := object("Rollout", ro.Namespace, ro.Name)
	edit := fmt.Sprintf("kubectl -n %s edit rollout %s", ro.Namespace, ro.Name)
	if ro.Spec.Strategy.Canary == nil {
		return []Result{failure("rollout-strategy", at, "spec.strategy.canary is missing: only the canary strategy splits traffic", "move the Rollout to spec.strategy.canary: "+edit)}, config, false
	}
	results = append(results, ok("rollout-strategy", at, "canary"))
	if !kedify.Uses(ro) {
		message := "spec.strategy.canary.trafficRouting.plugins has no " + kedify.PluginName
		if near := nearPlugin(ro); near != "" {
			message += fmt.Sprintf(", but %q", near)
		}
		return append(results, failure("rollout-config", at, message, fmt.Sprintf("set plugins[%q].httpScaledObjectName: %s", kedify.PluginName, edit))), config, false
	}
	config, err := kedify.ParseConfig(ro.Spec.Strategy.Canary.TrafficRouting.Plugins[kedify.PluginName])
	if err != nil {
		return append(results, failure("rollout-config", at, fmt.Sprintf("spec.strategy.canary.trafficRouting.plugins[%q]: %v", kedify.PluginName, err), "correct it: "+edit)), config, false
	}
	message := "names HTTPScaledObject " + strings.Join(config.Names(), ", ")
	results = append(results, ok("rollout-config", at, message))
	return results, config, true
}

// checkHealth: the controller acts on the Rollout, and says nothing bad of it.
func checkHealth(s snapshot, ro *v1alpha1.Rollout) []Result {
	const check = "rollout-health"
	at := object("Rollout", ro.Namespace, ro.Name)
	get := fmt.Sprintf("kubectl argo rollouts -n %s get rollout %s", ro.Namespace, ro.Name)
	for _, condition := range ro.Status.Conditions {
		if condition.Type == v1alpha1.InvalidSpec && condition.Status == corev1.ConditionTrue {
			return []Result{failure(check, at, "Argo Rollouts refuses the spec: "+condition.Message, fmt.Sprintf("correct it: kubectl -n %s edit rollout %s", ro.Namespace, ro.Name))}
		}
	}
	namespace, workload := s.controller.name()
	log := fmt.Sprintf("kubectl -n %s logs %s | grep %s", namespace, workload, ro.Name)
	said := lastComplaint(s, ro).message
	switch {
	case ro.Status.ObservedGeneration != "" && ro.Status.ObservedGeneration != strconv.FormatInt(ro.Generation, 10),
		ro.Status.ObservedGeneration == "" && ro.Status.Phase == "":
		if said != "" {
			return []Result{failure(check, at, "the controller cannot act on the last change: "+said, complaintRemedy(s.controller, said, log))}
		}
		return []Result{warning(check, at, "the controller has not acted on the last change yet", "try again in a moment; if it stays so: "+log)}
	case ro.Status.Abort:
		return []Result{warning(check, at, "is aborted, all traffic is on stable"+because(ro.Status.Message), fmt.Sprintf("kubectl argo rollouts -n %s retry rollout %s, or set the stable image again", ro.Namespace, ro.Name))}
	case ro.Status.Phase == v1alpha1.RolloutPhaseDegraded:
		message := "is Degraded" + because(ro.Status.Message)
		if said != "" {
			message += "; the controller last said: " + said
		}
		return []Result{failure(check, at, message, get)}
	case ro.Status.Canary.Weights == nil && said != "" && kedify.Uses(ro):
		return []Result{failure(check, at, "the controller cannot set its weight: "+said, complaintRemedy(s.controller, said, log))}
	}
	message := string(ro.Status.Phase)
	if ro.Status.Message != "" {
		message += " (" + ro.Status.Message + ")"
	}
	return []Result{ok(check, at, message)}
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
