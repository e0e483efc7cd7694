package gatewayapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter"
)

// DefaultPluginName is the name under which the plugin is registered in
// argo-rollouts-config, unless another is chosen.
const DefaultPluginName = "argoproj-labs/gatewayAPI"

// The label that a route carries while it is not at rest, unless the Rollout
// says otherwise.
const (
	DefaultLabelKey   = "rollouts.argoproj.io/gatewayapi-canary"
	DefaultLabelValue = "in-progress"
)

// Config is what a Rollout says under
// spec.strategy.canary.trafficRouting.plugins[<plugin>].
type Config struct {
	// Namespace is the namespace of all routes: the Rollout's own, unless the
	// configuration names another.
	Namespace string
	// Routes are the routes that are named, none twice: by kind in the order of
	// Kinds, then as they are listed.
	Routes []RouteConfig
	// Selectors select further routes in Namespace. They take no header routes.
	Selectors []SelectorConfig
	// Label marks a route that is not at rest; its key is empty where it is
	// disabled.
	Label Label
	// Verification is false if VerifyWeight is not to look at what the parents of a
	// route report.
	Verification bool
	// Warnings say what in the configuration is ignored: unknown keys, and keys
	// that the plugin of argoproj-labs has dropped. Each names its key.
	Warnings []string
	// UnknownKeys are the Warnings about unknown keys.
	UnknownKeys []string
}

// RouteConfig names one route.
type RouteConfig struct {
	Kind Kind
	Name string
	// UseHeaderRoutes is true where the route takes the Rollout's header routes.
	UseHeaderRoutes bool
	// Rules are the names of the rules to split; all that hold both Services when
	// empty.
	Rules []string
}

// SelectorConfig selects routes of one kind by their labels.
type SelectorConfig struct {
	Kind     Kind
	Selector labels.Selector
	// Rules are as in RouteConfig.
	Rules []string
}

// Label is a label of a route; none when its key is empty.
type Label struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Uses tells whether a Rollout has a configuration for the plugin of that name,
// valid or not.
func Uses(ro *v1alpha1.Rollout, plugin string) bool {
	return trafficrouter.Uses(ro, plugin)
}

// ConfigOf finds and reads the configuration of a Rollout for the plugin of that
// name; see ParseConfig. Errors and warnings name the whole path of a key.
func ConfigOf(ro *v1alpha1.Rollout, plugin string) (Config, error) {
	if ro.Spec.Strategy.Canary == nil {
		return Config{}, errors.New("spec.strategy.canary is missing: only the canary strategy splits traffic")
	}
	field := fmt.Sprintf("spec.strategy.canary.trafficRouting.plugins[%q]", plugin)
	if !Uses(ro, plugin) {
		return Config{}, fmt.Errorf("%s is missing: set httpRoute there", field)
	}
	config, err := ParseConfig(ro.Spec.Strategy.Canary.TrafficRouting.Plugins[plugin], ro.Namespace)
	for _, warnings := range [][]string{config.Warnings, config.UnknownKeys} {
		for i, warning := range warnings {
			warnings[i] = field + ": " + warning
		}
	}
	if err != nil {
		return config, fmt.Errorf("%s: %w", field, err)
	}
	return config, nil
}

// IsConfig tells whether a value names or selects a route, and so is a configuration
// for this router, valid or not.
func IsConfig(raw json.RawMessage) bool {
	var keys []string
	for _, kind := range Kinds {
		keys = append(keys, kind.key(), kind.key()+"s", kind.key()+"Selector")
	}
	found := (&reader{}).object(raw, "", keys)
	return slices.ContainsFunc(keys, func(key string) bool { return found[key] != nil })
}
