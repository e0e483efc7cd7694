package check

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

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
	return []Result{warning(namespace, "no Rollout here uses "+kedify.PluginName+" or "+gatewayapi.DefaultPluginName+", or a step plugin", "choose another namespace with -n, or set spec.strategy.canary.trafficRouting.plugins in the Rollout")}
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

// checkConfig: the Rollout uses one of the routers, with a configuration that its
// plugin accepts.
func checkConfig(r subject) []Result {
	ro := r.ro
	switch {
	case r.manifest != nil && len(routersOf(ro)) == 0 && strayKey(ro) == "":
		return nil // this Rollout uses no router of ours, and was not asked for
	case ro.Spec.Strategy.Canary == nil, routesToNone(ro):
		return nil // reported by rollout-strategy and rollout-router
	}
	at := object("Rollout", ro.Namespace, ro.Name)
	routers := routersOf(ro)
	if key := strayKey(ro); key != "" {
		return []Result{failure(at, fmt.Sprintf("%s has %s where the name of a plugin is wanted: the configuration is one level too high", pluginsField, key),
			fmt.Sprintf("move it to %s[%q]: %s", pluginsField, gatewayapi.DefaultPluginName, editRollout(ro)))}
	}
	if len(routers) == 0 && usesSteps(r.snapshot, ro) {
		return nil // it may have another router, or none
	}
	if len(routers) == 0 {
		return []Result{failure(at, fmt.Sprintf("spec.strategy.canary.trafficRouting.plugins has no %s, and no %s", kedify.PluginName, gatewayapi.DefaultPluginName),
			fmt.Sprintf("set plugins[%q].httpScaledObjectName, or plugins[%q].httpRoute: %s", kedify.PluginName, gatewayapi.DefaultPluginName, editRollout(ro)))}
	}
	var results []Result
	for _, r := range routers {
		switch {
		case !slices.Contains(plugins(ro), r.name):
			remedy := fmt.Sprintf("set plugins[%q].httpScaledObjectName: %s", r.name, editRollout(ro))
			if r.isGateway() {
				remedy = fmt.Sprintf("name it as argo-rollouts-config does, %s by default: %s", r.name, editRollout(ro))
			}
			results = append(results, failure(at, fmt.Sprintf("spec.strategy.canary.trafficRouting.plugins has no %s, but %q", r.name, nearPlugin(ro, r)), remedy))
		case r.isGateway():
			results = append(results, checkGatewayConfig(ro, r.name)...)
		default:
			results = append(results, checkKedifyConfig(ro))
		}
	}
	return results
}

// strayKey returns a key of the Gateway API router's configuration among the names of
// plugins, or "".
func strayKey(ro *v1alpha1.Rollout) string {
	for _, name := range plugins(ro) {
		if text, err := json.Marshal(map[string]string{name: ""}); err == nil && gatewayapi.IsConfig(text) {
			return name
		}
	}
	return ""
}

func checkKedifyConfig(ro *v1alpha1.Rollout) Result {
	at := object("Rollout", ro.Namespace, ro.Name)
	config, err := kedifyConfig(ro)
	if err != nil {
		return failure(at, err.Error(), "correct it: "+editRollout(ro))
	}
	return ok(at, "names HTTPScaledObject "+strings.Join(config.Names(), ", "))
}

// checkGatewayConfig: an unknown key is a failure, though the router goes on without it.
func checkGatewayConfig(ro *v1alpha1.Rollout, name string) []Result {
	at := object("Rollout", ro.Namespace, ro.Name)
	config, err := gatewayapi.ConfigOf(ro, name)
	var results []Result
	for _, text := range config.Warnings {
		if slices.Contains(config.UnknownKeys, text) {
			results = append(results, failure(at, text, "correct the key, or take it out: "+editRollout(ro)))
		} else {
			results = append(results, warning(at, text, "take it out: "+editRollout(ro)))
		}
	}
	if err != nil {
		return append(results, failure(at, err.Error(), "correct it: "+editRollout(ro)))
	}
	if len(results) > 0 {
		return results
	}
	var routes []string
	for _, route := range config.Routes {
		routes = append(routes, fmt.Sprintf("%s %s/%s", route.Kind, config.Namespace, route.Name))
	}
	for _, selector := range config.Selectors {
		routes = append(routes, fmt.Sprintf("the %ss of namespace %s with labels %q", selector.Kind, config.Namespace, selector.Selector))
	}
	return []Result{ok(at, "names "+strings.Join(routes, ", "))}
}

// routesToNone tells whether a Rollout has trafficRouting and no router in it. The API
// server drops fields that it does not know: this is left if a router is under a wrong
// field.
func routesToNone(ro *v1alpha1.Rollout) bool {
	canary := ro.Spec.Strategy.Canary
	if canary == nil || canary.TrafficRouting == nil {
		return false
	}
	text, err := json.Marshal(canary.TrafficRouting)
	var fields map[string]json.RawMessage
	if err != nil || json.Unmarshal(text, &fields) != nil {
		return false
	}
	delete(fields, "managedRoutes")
	delete(fields, "maxTrafficWeight")
	return len(fields) == 0
}

// checkRouter: trafficRouting has a router.
func checkRouter(r subject) []Result {
	ro := r.ro
	canary := ro.Spec.Strategy.Canary
	if canary == nil || canary.TrafficRouting == nil {
		return nil // reported by rollout-strategy and rollout-config
	}
	at := object("Rollout", ro.Namespace, ro.Name)
	switch {
	case routesToNone(ro) && r.manifest != nil:
		return []Result{failure(at, trafficRoutingField+" has no router: setWeight would scale the canary, and split no requests",
			fmt.Sprintf("set %s[%q] or %s[%q], or take trafficRouting out: %s", pluginsField, gatewayapi.DefaultPluginName, pluginsField, kedify.PluginName, editRollout(ro)))}
	case routesToNone(ro):
		return []Result{failure(at, "spec.strategy.canary.trafficRouting has no router: setWeight scales the canary, and splits no requests. The API server drops fields that it does not know, such as plugin, or gatewayAPI beside plugins",
			"look for the wrong field in its manifest: kubectl canary check -f MANIFEST")}
	}
	return []Result{ok(at, "routes traffic with "+strings.Join(routerNames(canary.TrafficRouting), ", "))}
}

// routerNames are the routers of a trafficRouting: the plugins by their names.
func routerNames(routing *v1alpha1.RolloutTrafficRouting) []string {
	names := slices.Sorted(maps.Keys(routing.Plugins))
	if len(names) == 0 {
		names = []string{"a router of Argo Rollouts' own"}
	}
	return names
}

// editRollout returns the command that opens a Rollout in an editor.
func editRollout(ro *v1alpha1.Rollout) string {
	return fmt.Sprintf("kubectl -n %s edit rollout %s", ro.Namespace, ro.Name)
}

// checkHealth: the controller acts on the Rollout, and reports no problem with it.
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
			return []Result{failure(at, "the controller cannot act on the last change: "+said, complaintRemedy(s.controller, ro, said, log))}
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
	case ro.Status.Canary.Weights == nil && said != "" && len(routersOf(ro)) > 0:
		return []Result{failure(at, "the controller cannot set its weight: "+said, complaintRemedy(s.controller, ro, said, log))}
	}
	message := string(ro.Status.Phase)
	if ro.Status.Message != "" {
		message += " (" + ro.Status.Message + ")"
	}
	return []Result{ok(at, message)}
}

// complaintRemedy says what to do about a reconcile that fails.
func complaintRemedy(c controllerSnapshot, ro *v1alpha1.Rollout, said, log string) string {
	of := kedifyRouter
	for i, r := range routersOf(ro) {
		if i == 0 || strings.Contains(said, r.name) {
			of = r
		}
	}
	switch {
	case strings.Contains(said, "not configured in configmap"):
		return fmt.Sprintf("register %s in %s (see plugin-registered), then %s", of.name, c.configObject(), c.restartCommand())
	case strings.Contains(said, "exec format error"):
		return "the asset is for another platform (see plugin-platform): correct location and sha256, then " + c.restartCommand()
	case strings.Contains(said, "forbidden"):
		return fmt.Sprintf("apply %s (see controller-access); %s", of.deploy, c.logCommand(of.log))
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
