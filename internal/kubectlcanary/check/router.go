package check

import (
	"slices"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	plugintypes "github.com/argoproj/argo-rollouts/utils/plugin/types"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/gatewayapi"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/kedify"
)

// router is a traffic router of this project, under the name of one installation.
type router struct {
	// name is the one under which Rollouts use the router, and under which
	// argo-rollouts-config has to register it.
	name string
	// asset is the prefix of the names of its programs in a release.
	asset string
	// role is the ClusterRole, and its binding, that the manifests in the directory
	// deploy install.
	role, deploy string
	// entry says where the entry to register comes from.
	entry string
	// log is a pattern for grep, by which its lines are found in the controller's log.
	log string
	// letters are its name, and other names of the plugin and its files, reduced to
	// lower-case letters and digits.
	letters []string
	// step is true for a registration of the step plugin, which routes nothing: only its
	// file is looked at.
	step bool
}

var kedifyRouter = router{
	name:    kedify.PluginName,
	asset:   "rollouts-plugin-kedify",
	role:    "argo-rollouts-kedify-http",
	deploy:  "deploy/rbac",
	entry:   "the last three lines of a release's install-<os>-<arch>.yaml",
	log:     `httpscaled\|forbidden`,
	letters: []string{"kedifyhttp", "kedify", "httpkedify", "rolloutspluginkedify", "kedifyrolloutspluginkedify", "kedifyargorolloutsplugin"},
}

// gatewayRouter is the router for routes of the Gateway API, which is registered under
// a name of the user's choice.
func gatewayRouter(name string) router {
	return router{
		name:   name,
		asset:  "gatewayapi-plugin",
		role:   "argo-rollouts-gatewayapi",
		deploy: "deploy/gatewayapi",
		entry:  "with the URL of a release's gatewayapi-plugin-<os>-<arch> and its line of checksums.txt",
		log:    `gatewayapi\|forbidden`,
		letters: []string{lettersOf(name), lettersOf(gatewayapi.DefaultPluginName), "gatewayapi", "argoprojgatewayapi", "gatewayapiplugin",
			"rolloutsplugingatewayapi", "rolloutsplugintrafficroutergatewayapi", "argoprojlabsrolloutsplugintrafficroutergatewayapi"},
	}
}

// itemOf returns the entry of a plugin in the ConfigMap, or nil.
func itemOf(c controllerSnapshot, of router) *plugintypes.PluginItem {
	if !of.step {
		return register(c, of).item
	}
	if c.config.Value == nil {
		return nil
	}
	var items []plugintypes.PluginItem
	if err := yaml.Unmarshal([]byte(c.config.Value.Data[stepPlugins]), &items); err != nil {
		return nil
	}
	if i := slices.IndexFunc(items, func(item plugintypes.PluginItem) bool { return item.Name == of.name }); i >= 0 {
		return &items[i]
	}
	return nil
}

// isGateway tells whether it is a router for routes of the Gateway API.
func (r router) isGateway() bool { return r.name != kedify.PluginName }

// resembles tells whether a name looks like a mistyped name of the router: another case
// or separator, one letter wrong, or one of its other names (letters).
func (r router) resembles(name string) bool {
	if name == r.name {
		return false
	}
	letters := lettersOf(name)
	return slices.Contains(r.letters, letters) || oneEditApart(letters, r.letters[0])
}

// lettersOf returns the letters and digits of a name, in lower case.
func lettersOf(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(name))
}

// routersOf returns the routers that a Rollout uses, or seems meant to use.
func routersOf(ro *v1alpha1.Rollout) []router {
	var routers []router
	if kedify.Uses(ro) || nearPlugin(ro, kedifyRouter) != "" {
		routers = append(routers, kedifyRouter)
	}
	for _, name := range gatewayNames(ro) {
		routers = append(routers, gatewayRouter(name))
	}
	if router := gatewayRouter(gatewayapi.DefaultPluginName); len(gatewayNames(ro)) == 0 && nearPlugin(ro, router) != "" {
		routers = append(routers, router)
	}
	return routers
}

// gatewayNames returns the names under which a Rollout has a configuration for the
// router of the Gateway API, and under which a plugin can be registered.
func gatewayNames(ro *v1alpha1.Rollout) []string {
	var names []string
	for _, name := range plugins(ro) {
		raw := ro.Spec.Strategy.Canary.TrafficRouting.Plugins[name]
		if name == gatewayapi.DefaultPluginName || name != kedify.PluginName && pluginName.MatchString(name) && gatewayapi.IsConfig(raw) {
			names = append(names, name)
		}
	}
	return names
}

// nearPlugin returns a plugin of the Rollout whose name looks like a mistyped name of
// the router, or that has the router's configuration under a name that no plugin can
// have; "" if there is none.
func nearPlugin(ro *v1alpha1.Rollout, r router) string {
	for _, name := range plugins(ro) {
		raw := ro.Spec.Strategy.Canary.TrafficRouting.Plugins[name]
		if r.resembles(name) && name != kedify.PluginName || r.isGateway() && !pluginName.MatchString(name) && gatewayapi.IsConfig(raw) {
			return name
		}
	}
	return ""
}

// routersToCheck returns the routers that the Rollouts to check use; where they use
// none, those that are registered.
func routersToCheck(c controllerSnapshot, rollouts []*v1alpha1.Rollout) []router {
	var routers []router
	add := func(r router) {
		if !slices.ContainsFunc(routers, func(known router) bool { return known.name == r.name }) {
			routers = append(routers, r)
		}
	}
	for _, ro := range rollouts {
		for _, r := range routersOf(ro) {
			add(r)
		}
	}
	if len(routers) > 0 {
		return routers
	}
	for _, r := range []router{kedifyRouter, gatewayRouter(gatewayapi.DefaultPluginName)} {
		if register(c, r).item != nil {
			add(r)
		}
	}
	return routers
}
