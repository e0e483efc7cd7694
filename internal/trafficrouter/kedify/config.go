package kedify

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kedify/argo-rollouts-plugin/internal/jsontype"
	"github.com/kedify/argo-rollouts-plugin/internal/nearest"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter"
)

// PluginName is the name under which the plugin is registered in
// argo-rollouts-config and configured in a Rollout.
const PluginName = "kedify/http"

// The keys of the configuration.
const (
	keyName  = "httpScaledObjectName"
	keyList  = "httpScaledObjects"
	keyEntry = "name"
)

// Config is what a Rollout says under
// spec.strategy.canary.trafficRouting.plugins["kedify/http"].
type Config struct {
	names []string
}

// Names returns the names of the HTTPScaledObjects, in the Rollout's
// namespace, that carry the split: at least one, none twice.
func (c Config) Names() []string { return c.names }

// ParseConfig reads the configuration of one Rollout: either
// {"httpScaledObjectName": "a"} or {"httpScaledObjects": [{"name": "a"}, …]}.
// It is strict: an unknown or mistyped key (case counts), a value of another
// type, a missing or invalid name, or the same name twice is an error that
// names it, and suggests the nearest known key.
func ParseConfig(raw json.RawMessage) (Config, error) {
	fields, err := object(raw, "", keyName, keyList)
	if err != nil {
		return Config{}, err
	}
	one, hasOne := fields[keyName]
	list, hasList := fields[keyList]
	switch {
	case hasOne && hasList:
		return Config{}, fmt.Errorf("%s and %s exclude each other: keep one", keyName, keyList)
	case hasOne:
		name, err := objectName(one, keyName)
		if err != nil {
			return Config{}, err
		}
		return Config{names: []string{name}}, nil
	case hasList:
		return parseList(list)
	}
	return Config{}, fmt.Errorf("%s is missing: name the HTTPScaledObject that routes this Rollout's traffic, or list several under %s", keyName, keyList)
}

func parseList(raw json.RawMessage) (Config, error) {
	var entries []json.RawMessage
	if err := json.Unmarshal(raw, &entries); err != nil {
		return Config{}, fmt.Errorf("%s: want a list of {%s: …}, got %s", keyList, keyEntry, jsontype.Of(raw))
	}
	if len(entries) == 0 {
		return Config{}, fmt.Errorf("%s is empty: list at least one {%s: …}", keyList, keyEntry)
	}
	names := make([]string, 0, len(entries))
	for i, entry := range entries {
		at := fmt.Sprintf("%s[%d]", keyList, i)
		fields, err := object(entry, at+".", keyEntry)
		if err != nil {
			return Config{}, err
		}
		value, ok := fields[keyEntry]
		if !ok {
			return Config{}, fmt.Errorf("%s.%s is missing", at, keyEntry)
		}
		name, err := objectName(value, at+"."+keyEntry)
		if err != nil {
			return Config{}, err
		}
		if slices.Contains(names, name) {
			return Config{}, fmt.Errorf("%s.%s: %q is listed twice", at, keyEntry, name)
		}
		names = append(names, name)
	}
	return Config{names: names}, nil
}

// object decodes a JSON object and refuses keys other than known. encoding/json
// would match keys regardless of case, which hides a mistyped one here that
// another reader refuses.
func object(raw json.RawMessage, at string, known ...string) (map[string]json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		where := strings.TrimSuffix(at, ".")
		if where == "" {
			where = "the configuration"
		}
		return nil, fmt.Errorf("%s: want an object with %s, got %s", where, strings.Join(known, " or "), jsontype.Of(raw))
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(known, key) {
			return nil, fmt.Errorf("unknown key %q: did you mean %q?", at+key, at+nearest.Word(key, known))
		}
	}
	return fields, nil
}

func objectName(raw json.RawMessage, at string) (string, error) {
	var name string
	if err := json.Unmarshal(raw, &name); err != nil || jsontype.Of(raw) != "a string" {
		return "", fmt.Errorf("%s: want the name of an HTTPScaledObject, got %s", at, jsontype.Of(raw))
	}
	if name == "" {
		return "", fmt.Errorf("%s is empty: want the name of an HTTPScaledObject", at)
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return "", fmt.Errorf("%s: %q is no valid object name: %s", at, name, strings.Join(problems, "; "))
	}
	return name, nil
}

// Uses tells whether a Rollout has a configuration for the plugin, valid or not.
func Uses(ro *v1alpha1.Rollout) bool { return trafficrouter.Uses(ro, PluginName) }

// rolloutConfig finds and reads the configuration in a Rollout.
func rolloutConfig(ro *v1alpha1.Rollout) (Config, error) {
	field := fmt.Sprintf("spec.strategy.canary.trafficRouting.plugins[%q]", PluginName)
	canary := ro.Spec.Strategy.Canary
	if canary == nil {
		return Config{}, errors.New("spec.strategy.canary is missing: only the canary strategy splits traffic")
	}
	if !Uses(ro) {
		return Config{}, fmt.Errorf("%s is missing: set %s there", field, keyName)
	}
	config, err := ParseConfig(canary.TrafficRouting.Plugins[PluginName])
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", field, err)
	}
	return config, nil
}
