package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	plugintypes "github.com/argoproj/argo-rollouts/utils/plugin/types"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/gatewayapi"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/kedify"
)

// configMapName is the ConfigMap that the controller reads at its start.
const configMapName = "argo-rollouts-config"

// The lists of plugins in it.
const (
	trafficRouterPlugins  = "trafficRouterPlugins"
	metricProviderPlugins = "metricProviderPlugins"
	stepPlugins           = "stepPlugins"
)

var pluginLists = []string{trafficRouterPlugins, metricProviderPlugins, stepPlugins}

// registered returns the entries of a list of the ConfigMap, as the controller reads them:
// none where it cannot.
func (c controllerSnapshot) registered(list string) []plugintypes.PluginItem {
	if c.config.Value == nil {
		return nil
	}
	var items []plugintypes.PluginItem
	if err := yaml.Unmarshal([]byte(c.config.Value.Data[list]), &items); err != nil {
		return nil // reported by plugin-registered
	}
	return items
}

// item returns the entry of the plugin in the ConfigMap, or nil.
func (p pluginSnapshot) item(c controllerSnapshot) *plugintypes.PluginItem {
	items := c.registered(p.list)
	if i := slices.IndexFunc(items, p.isEntry); i >= 0 {
		return &items[i]
	}
	return nil
}

func (p pluginSnapshot) isEntry(item plugintypes.PluginItem) bool { return item.Name == p.name }

// isGateway tells whether it is a router for routes of the Gateway API, which is registered
// under a name of the user's choice.
func (p pluginSnapshot) isGateway() bool { return p.name != kedify.PluginName }

// deploy is the directory with the manifests that grant the router's access.
func (p pluginSnapshot) deploy() string {
	if p.isGateway() {
		return "deploy/gatewayapi"
	}
	return "deploy/rbac"
}

// log is a pattern for grep, by which the router's lines are found in the controller's log.
func (p pluginSnapshot) log() string {
	if p.isGateway() {
		return `gatewayapi\|forbidden`
	}
	return `httpscaled\|forbidden`
}

// routersToCheck returns the routers that the Rollouts to check use; where they use none,
// those that are registered.
func routersToCheck(c controllerSnapshot, rollouts []*v1alpha1.Rollout) []pluginSnapshot {
	var routers []pluginSnapshot
	add := func(name string) {
		p := pluginSnapshot{name: name, list: trafficRouterPlugins}
		if !slices.ContainsFunc(routers, func(known pluginSnapshot) bool { return known.name == name }) {
			routers = append(routers, p)
		}
	}
	for _, ro := range rollouts {
		for _, use := range routersOf(ro) {
			add(use.router)
		}
	}
	if len(routers) > 0 {
		return routers
	}
	for _, item := range c.registered(trafficRouterPlugins) {
		if item.Name == kedify.PluginName || item.Name == gatewayapi.DefaultPluginName {
			add(item.Name)
		}
	}
	return routers
}

func (c controllerSnapshot) configObject() string {
	return object("ConfigMap", c.configNamespace, configMapName)
}

// editConfig returns the commands that change what the controller reads at its start.
func (c controllerSnapshot) editConfig() string {
	return fmt.Sprintf("kubectl -n %s edit configmap %s, then %s", c.configNamespace, configMapName, c.restartCommand())
}

// checkRegistered: each router is under trafficRouterPlugins, once, under the name that
// Rollouts use, and the controller can read the ConfigMap.
func checkRegistered(s snapshot) []Result {
	c := s.controller
	at := c.configObject()
	switch {
	case c.config.Err.notFound():
		return []Result{failure(at, "the ConfigMap does not exist: the controller knows no plugin",
			fmt.Sprintf("apply install-<os>-<arch>.yaml of a release, with namespace %s in it, then %s", c.configNamespace, c.restartCommand()))}
	case c.config.Err != nil:
		return []Result{couldNotLook(at, c.config.Err)}
	}
	var results []Result
	for _, list := range pluginLists {
		var items []plugintypes.PluginItem
		text := []byte(c.config.Value.Data[list])
		if err := yaml.Unmarshal(text, &items); err != nil {
			results = append(results, failure(at, fmt.Sprintf("data.%s is not a YAML list of plugins, so the controller does not start: %v", list, err), "correct it: "+c.editConfig()))
		} else if err := yaml.UnmarshalStrict(text, &items); err != nil {
			results = append(results, warning(at, fmt.Sprintf("data.%s has keys that Argo Rollouts ignores: %v", list, err), "correct the key, or take it out: "+c.editConfig()))
		}
	}
	if slices.ContainsFunc(results, func(r Result) bool { return r.Status == Failure }) {
		return results
	}
	for _, p := range s.plugins {
		results = append(results, p.checkEntry(c))
	}
	if usesSteps := func(ro *v1alpha1.Rollout) bool { return usesSteps(s, ro) }; len(s.plugins) == 0 && len(s.stepEntries()) == 0 && !slices.ContainsFunc(rolloutsToCheck(s), usesSteps) {
		results = append(results, failure(at, fmt.Sprintf("neither %s nor %s is registered under data.%s", kedify.PluginName, gatewayapi.DefaultPluginName, trafficRouterPlugins),
			"add the entry (name, location, sha256) of the one that you want: "+c.editConfig()))
	}
	return results
}

func (p pluginSnapshot) checkEntry(c controllerSnapshot) Result {
	at := c.configObject()
	var others []string
	times := 0
	for _, list := range pluginLists {
		for _, item := range c.registered(list) {
			switch {
			case item.Name == p.name && list == p.list:
				times++
			case item.Name == p.name:
				return failure(at, fmt.Sprintf("%s is registered under data.%s: it is a traffic router", p.name, list), fmt.Sprintf("move the entry to data.%s: %s", p.list, c.editConfig()))
			default:
				others = append(others, fmt.Sprintf("%q", item.Name))
			}
		}
	}
	switch {
	case times > 1:
		return failure(at, fmt.Sprintf("%s is listed %d times under data.%s: the controller runs the last one's binary with the first one's args", p.name, times, p.list), "keep one entry: "+c.editConfig())
	case times == 1:
		return ok(at, "registers "+p.name)
	}
	message := fmt.Sprintf("%s is not registered under data.%s", p.name, p.list)
	if len(others) > 0 {
		message += "; there is " + strings.Join(others, ", ")
	}
	return failure(at, message, fmt.Sprintf("add the entry (name, location, sha256), or name it %s: %s", p.name, c.editConfig()))
}
