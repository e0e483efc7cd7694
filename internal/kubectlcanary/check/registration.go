package check

import (
	"fmt"
	"path"
	"regexp"
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

// pluginName is what Argo Rollouts accepts as the name of a plugin.
var pluginName = regexp.MustCompile(`^[a-zA-Z0-9\-]+/[a-zA-Z0-9_\-.]+$`)

// registration is what the ConfigMap says about a router's plugin.
type registration struct {
	// item is the entry of its name under trafficRouterPlugins, or nil.
	item *plugintypes.PluginItem
	// problems keep the controller from starting, or the plugin from being
	// found; doubts do not.
	problems, doubts []problem
}

type problem struct{ message, remedy string }

// register reads the ConfigMap as the controller does, and records what the
// controller would have a problem with.
func register(c controllerSnapshot, of router) registration {
	var r registration
	if c.config.Err != nil || c.config.Value == nil {
		return r
	}
	data := c.config.Value.Data
	edit := fmt.Sprintf("kubectl -n %s edit configmap %s", c.configNamespace, configMapName)
	restart := c.restartCommand()
	at := map[string]int{} // name → entries under trafficRouterPlugins
	elsewhere := map[string]string{}
	var near []string
	for _, key := range []string{trafficRouterPlugins, metricProviderPlugins, stepPlugins} {
		var items []plugintypes.PluginItem
		if err := yaml.Unmarshal([]byte(data[key]), &items); err != nil {
			r.problems = append(r.problems, problem{
				fmt.Sprintf("data.%s is not a YAML list of plugins, so the controller does not start: %v", key, err),
				fmt.Sprintf("correct it: %s, then %s", edit, restart),
			})
			continue
		}
		var strict []plugintypes.PluginItem
		if err := yaml.UnmarshalStrict([]byte(data[key]), &strict); err != nil {
			r.doubts = append(r.doubts, problem{
				fmt.Sprintf("data.%s has keys that Argo Rollouts ignores: %v", key, err),
				fmt.Sprintf("known keys are name, location, sha256, args, headersFrom (and disabled for step plugins): %s", edit),
			})
		}
		for i := range items {
			name := items[i].Name
			switch {
			case name == of.name && key == trafficRouterPlugins:
				at[name]++
				if r.item == nil {
					r.item = &items[i]
				}
			case name == of.name:
				elsewhere[name] = key
			case of.resembles(name), of.isGateway() && name != kedify.PluginName && strings.Contains(path.Base(items[i].Location), of.asset):
				near = append(near, fmt.Sprintf("%q under %s", name, key))
			}
			if !pluginName.MatchString(name) {
				r.problems = append(r.problems, problem{
					fmt.Sprintf("data.%s[%d].name %q is not of the form <namespace>/<name>, so the controller does not start", key, i, name),
					fmt.Sprintf("correct the name: %s, then %s", edit, restart),
				})
			}
		}
	}
	wrong := elsewhere[of.name]
	switch {
	case r.item == nil && len(r.problems) > 0 && len(near) == 0 && wrong == "":
		// What keeps the list from being read comes first.
	case r.item == nil && wrong != "":
		r.problems = append(r.problems, problem{
			fmt.Sprintf("%s is registered under data.%s, not under data.%s: it is a traffic router", of.name, wrong, trafficRouterPlugins),
			fmt.Sprintf("move the entry: %s, then %s", edit, restart),
		})
	case r.item == nil && len(near) > 0:
		r.problems = append(r.problems, problem{
			fmt.Sprintf("no plugin is named %s exactly; there is %s", of.name, strings.Join(near, " and ")),
			fmt.Sprintf("name it %s, under data.%s: %s, then %s", of.name, trafficRouterPlugins, edit, restart),
		})
	case r.item == nil:
		message := fmt.Sprintf("%s is not registered under data.%s", of.name, trafficRouterPlugins)
		if key := misplaced(data, of.name); key != "" {
			message += fmt.Sprintf("; data.%s mentions it, but Argo Rollouts does not read that key", key)
		}
		r.problems = append(r.problems, problem{message,
			fmt.Sprintf("add the entry (name, location, sha256), %s: %s, then %s", of.entry, edit, restart)})
	case at[of.name] > 1:
		r.problems = append(r.problems, problem{
			fmt.Sprintf("%s is listed %d times under data.%s: the controller runs the last one's binary with the first one's args", of.name, at[of.name], trafficRouterPlugins),
			fmt.Sprintf("keep one entry: %s, then %s", edit, restart),
		})
	case r.item != nil && otherName(r.item, of) != "":
		r.problems = append(r.problems, problem{
			fmt.Sprintf("%s is started with --name %s, and looks for its configuration under that name in Rollouts", of.name, otherName(r.item, of)),
			fmt.Sprintf("take --name out of its args: %s, then %s", edit, restart),
		})
	case wrong != "":
		r.problems = append(r.problems, problem{
			fmt.Sprintf("%s is also listed under data.%s: both are stored as plugin-bin/%s, so one overwrites the other", of.name, wrong, of.name),
			fmt.Sprintf("remove that entry: %s, then %s", edit, restart),
		})
	}
	return r
}

// otherName returns the name under which the plugin is told to look for its
// configuration, where that is not the registered one.
func otherName(item *plugintypes.PluginItem, of router) string {
	if name := flagValue(item, "--name"); of.isGateway() && name != of.name {
		return name
	}
	return ""
}

// oneEditApart tells whether two words are the same or differ by one letter
// inserted, left out, replaced or swapped with the next.
func oneEditApart(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	switch {
	case len(b)-len(a) > 1:
		return false
	case len(a) < len(b):
		return a[i:] == b[i+1:]
	case i == len(a), a[i+1:] == b[i+1:]:
		return true
	}
	return i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
}

// misplaced returns a key that Argo Rollouts does not read but that mentions
// a plugin, such as trafficRouterPlugin.
func misplaced(data map[string]string, plugin string) string {
	known := []string{trafficRouterPlugins, metricProviderPlugins, stepPlugins}
	var keys []string
	for key, value := range data {
		if !slices.Contains(known, key) && strings.Contains(value, plugin) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return strings.Join(keys, ", data.")
}

func (c controllerSnapshot) configObject() string {
	return object("ConfigMap", c.configNamespace, configMapName)
}

// checkRegistered: a router is under trafficRouterPlugins, once, under the name that
// Rollouts use, and the controller can read the ConfigMap.
func checkRegistered(c controllerSnapshot, p pluginSnapshot) []Result {
	at := c.configObject()
	if result, unread := c.configUnread(p.router); unread {
		return []Result{result}
	}
	r := register(c, p.router)
	var results []Result
	for _, p := range r.problems {
		results = append(results, failure(at, p.message, p.remedy))
	}
	for _, p := range r.doubts {
		results = append(results, warning(at, p.message, p.remedy))
	}
	if len(results) == 0 {
		results = append(results, ok(at, "registers "+p.name))
	}
	return results
}

// configUnread says why the ConfigMap was not read, if it was not.
func (c controllerSnapshot) configUnread(r router) (Result, bool) {
	switch {
	case c.config.Err.notFound() && r.isGateway():
		return failure(c.configObject(), "the ConfigMap does not exist: the controller knows no plugin",
			fmt.Sprintf("make it, with an entry (name, location, sha256) under data.%s, %s, then %s", trafficRouterPlugins, r.entry, c.restartCommand())), true
	case c.config.Err.notFound():
		return failure(c.configObject(), "the ConfigMap does not exist: the controller knows no plugin",
			fmt.Sprintf("apply install-<os>-<arch>.yaml of a release, with namespace %s in it, then %s", c.configNamespace, c.restartCommand())), true
	case c.config.Err != nil:
		return couldNotLook(c.configObject(), c.config.Err), true
	}
	return Result{}, false
}

// checkAnyRegistered: if no Rollout says which router is meant, one of them is
// registered.
func checkAnyRegistered(s snapshot) []Result {
	if len(s.plugins) > 0 || len(s.stepEntries()) > 0 || slices.ContainsFunc(rolloutsToCheck(s), func(ro *v1alpha1.Rollout) bool { return usesSteps(s, ro) }) {
		return nil
	}
	c := s.controller
	if result, unread := c.configUnread(kedifyRouter); unread {
		return []Result{result}
	}
	return []Result{failure(c.configObject(), fmt.Sprintf("neither %s nor %s is registered under data.%s", kedify.PluginName, gatewayapi.DefaultPluginName, trafficRouterPlugins),
		fmt.Sprintf("add the entry (name, location, sha256) of the one that you want: kubectl -n %s edit configmap %s, then %s", c.configNamespace, configMapName, c.restartCommand()))}
}
