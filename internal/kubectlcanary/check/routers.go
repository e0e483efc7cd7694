package check

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/gatewayapi"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/kedify"
)

const (
	trafficRoutingField = "spec.strategy.canary.trafficRouting"
	pluginsField        = trafficRoutingField + ".plugins"
)

// routerUse is an entry of a Rollout's trafficRouting.plugins that is for a router of this
// project, or that is meant to be.
type routerUse struct {
	// name is the entry's.
	name string
	// router is the name that the plugin is to be registered under.
	router string
	// problem says why no plugin reads the entry, which belongs under router.
	problem string
}

// routersOf returns the routers that a Rollout uses, or seems meant to use.
func routersOf(ro *v1alpha1.Rollout) []routerUse {
	canary := ro.Spec.Strategy.Canary
	if canary == nil || canary.TrafficRouting == nil {
		return nil
	}
	var uses []routerUse
	for _, name := range slices.Sorted(maps.Keys(canary.TrafficRouting.Plugins)) {
		raw := canary.TrafficRouting.Plugins[name]
		of := routerConfiguredBy(raw)
		switch {
		case name == kedify.PluginName, name == gatewayapi.DefaultPluginName,
			of == gatewayapi.DefaultPluginName && strings.Contains(name, "/"):
			uses = append(uses, routerUse{name: name, router: name})
		case of != "":
			uses = append(uses, routerUse{name, of, fmt.Sprintf("%s has no %s, but %q", pluginsField, of, name)})
		default:
			if of = routerConfiguredBy(keyed(name, raw)); of != "" {
				uses = append(uses, routerUse{name, of, fmt.Sprintf("%s has %s where the name of a plugin is wanted: the configuration is one level too high", pluginsField, name)})
			}
		}
	}
	return uses
}

// routerConfiguredBy returns the name of the router whose configuration a value is, by its keys;
// "" if it is that of none.
func routerConfiguredBy(raw json.RawMessage) string {
	if gatewayapi.IsConfig(raw) {
		return gatewayapi.DefaultPluginName
	}
	var keys map[string]json.RawMessage
	_ = json.Unmarshal(raw, &keys) // what is no object has no keys
	for key := range keys {
		if strings.HasPrefix(key, "httpScaledObject") {
			return kedify.PluginName
		}
	}
	return ""
}

// keyed returns an object with one key.
func keyed(key string, value json.RawMessage) json.RawMessage {
	text, err := json.Marshal(map[string]json.RawMessage{key: value})
	if err != nil {
		return nil
	}
	return text
}

// kedifyConfig reads the configuration of a Rollout for kedify/http.
func kedifyConfig(ro *v1alpha1.Rollout) (kedify.Config, error) {
	config, err := kedify.ParseConfig(ro.Spec.Strategy.Canary.TrafficRouting.Plugins[kedify.PluginName])
	if err != nil {
		return kedify.Config{}, fmt.Errorf("%s[%q]: %w", pluginsField, kedify.PluginName, err)
	}
	return config, nil
}

// kedifyNames returns the HTTPScaledObjects that a Rollout names.
func kedifyNames(ro *v1alpha1.Rollout) []string {
	if !kedify.Uses(ro) {
		return nil
	}
	config, _ := kedifyConfig(ro) // rollout-config says what is wrong with it
	return config.Names()
}

// checkConfig: the Rollout uses one of the routers, with a configuration that its
// plugin accepts.
func checkConfig(r subject) []Result {
	at := object("Rollout", r.ro.Namespace, r.ro.Name)
	uses := routersOf(r.ro)
	switch {
	case len(uses) > 0:
	case r.ro.Spec.Strategy.Canary == nil && r.manifest == nil:
		return []Result{failure(at, "spec.strategy.canary is missing: only the canary strategy splits traffic", "move the Rollout to spec.strategy.canary: "+editRollout(r.ro))}
	case r.manifest != nil, routesToNone(r.ro), usesSteps(r.snapshot, r.ro):
		return nil // it was not asked for, or rollout-router reports it, or it may have another router
	default:
		return []Result{failure(at, fmt.Sprintf("%s has no %s, and no %s", pluginsField, kedify.PluginName, gatewayapi.DefaultPluginName),
			fmt.Sprintf("set plugins[%q].httpScaledObjectName, or plugins[%q].httpRoute: %s", kedify.PluginName, gatewayapi.DefaultPluginName, editRollout(r.ro)))}
	}
	var results []Result
	for _, use := range uses {
		switch {
		case use.problem != "":
			results = append(results, failure(at, use.problem, fmt.Sprintf("move it to %s[%q]: %s", pluginsField, use.router, editRollout(r.ro))))
		case use.name == kedify.PluginName:
			config, err := kedifyConfig(r.ro)
			if err != nil {
				results = append(results, failure(at, err.Error(), "correct it: "+editRollout(r.ro)))
			} else {
				results = append(results, ok(at, "names HTTPScaledObject "+strings.Join(config.Names(), ", ")))
			}
		default:
			results = append(results, checkGatewayConfig(r.ro, use.name)...)
		}
	}
	return results
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
		results = append(results, failure(at, err.Error(), "correct it: "+editRollout(ro)))
	}
	if len(results) == 0 {
		results = append(results, ok(at, fmt.Sprintf("names %s and %s", count(len(config.Routes), "route"), count(len(config.Selectors), "selector"))))
	}
	return results
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
	canary := r.ro.Spec.Strategy.Canary
	if canary == nil || canary.TrafficRouting == nil {
		return nil // reported by rollout-config
	}
	at := object("Rollout", r.ro.Namespace, r.ro.Name)
	const none = trafficRoutingField + " has no router: setWeight scales the canary, and splits no requests"
	switch {
	case routesToNone(r.ro) && r.manifest != nil:
		return []Result{failure(at, none, fmt.Sprintf("set %s[%q] or %s[%q], or take trafficRouting out: %s", pluginsField, gatewayapi.DefaultPluginName, pluginsField, kedify.PluginName, editRollout(r.ro)))}
	case routesToNone(r.ro):
		return []Result{failure(at, none+". The API server drops fields that it does not know, such as plugin, or gatewayAPI beside plugins",
			"look for the wrong field in its manifest: kubectl canary check -f MANIFEST")}
	}
	return []Result{ok(at, trafficRoutingField+" has a router")}
}
