package steps

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/jsontype"
	"github.com/kedify/argo-rollouts-plugin/internal/nearest"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/bound"
)

// PresetKey is the key of a ConfigMap that holds a preset.
const PresetKey = "preset.yaml"

const (
	// configLimit bounds the configuration of a step, and a preset, in bytes of JSON.
	configLimit = 64 << 10
	// depthLimit bounds how deep objects and lists are nested.
	depthLimit = 100
)

// Preset is what an admin gives the steps of a registration, beside its flags.
type Preset struct {
	// Defaults is the configuration of a step that says nothing else. Objects are merged with
	// the Rollout's key by key; lists and values are replaced, and so are references to
	// Secrets as a whole.
	Defaults map[string]any `json:"defaults,omitempty"`
	// Locked are the keys, such as `request.url`, that a Rollout may not set, with all that is
	// under them. `*` is all keys. A step that sets one fails.
	Locked []string `json:"locked,omitempty"`
	// Hosts are where requests may go, besides those of `--allow-host`: `ci.example.com`,
	// `ci.example.com:8443`, an address, or `*.example.com` for every name below
	// `example.com`. Secrets of `--secrets-namespace` go to these alone.
	Hosts []string `json:"hosts,omitempty"`
}

// PresetSource provides the preset of a registration.
type PresetSource interface {
	// Preset returns the preset as it is now. It returns an UnreadError while the preset
	// cannot be read, and another error if the preset is wrong.
	Preset(context.Context) (*Preset, error)
}

// UnreadError is the error of a preset that cannot be read now.
type UnreadError struct{ Cause error }

// Error says why.
func (e *UnreadError) Error() string { return e.Cause.Error() }

// Unwrap returns the cause.
func (e *UnreadError) Unwrap() error { return e.Cause }

// ReadPreset reads a preset from YAML. The error names the key.
func ReadPreset(text []byte) (*Preset, error) {
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, err
	}
	keys, err := objectOf(asJSON)
	if err != nil {
		return nil, fmt.Errorf("want an object with defaults, locked and hosts: %w", err)
	}
	known := []string{"defaults", "locked", "hosts"}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if !slices.Contains(known, key) {
			return nil, fmt.Errorf("unknown key %q: did you mean %q?", key, nearest.Word(key, known))
		}
	}
	var preset Preset
	if err := decode(asJSON, &preset); err != nil {
		return nil, err
	}
	for _, path := range preset.Locked {
		if path != "*" && slices.Contains(strings.Split(path, "."), "") {
			return nil, fmt.Errorf("locked: %q: want a key such as request.url, or *", path)
		}
	}
	return &preset, nil
}

// decode reads JSON, with numbers as they are written.
func decode(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(into)
}

// Over returns a Rollout's configuration merged over the preset's defaults, as an object.
// It does not check whether the Rollout may set these keys.
func (p *Preset) Over(config json.RawMessage) (map[string]any, error) {
	given, err := objectOf(config)
	if err != nil {
		return nil, err
	}
	return merge(p.Defaults, given), nil
}

// apply returns a Rollout's configuration merged over the preset's defaults. It returns an
// error if the Rollout sets a locked key, or names the namespace of a Secret or ConfigMap.
func (p *Preset) apply(config json.RawMessage) (Source, error) {
	given, err := objectOf(config)
	if err != nil {
		return Source{}, err
	}
	for _, path := range p.Locked {
		if path == "*" && len(given) > 0 {
			return Source{}, fmt.Errorf("%s: the preset lets a Rollout set nothing", slices.Sorted(maps.Keys(given))[0])
		}
		if sets(given, strings.Split(path, ".")) {
			return Source{}, fmt.Errorf("%s: the preset does not let a Rollout set this", path)
		}
	}
	if err := rejectOtherNamespaces(given); err != nil {
		return Source{}, err
	}
	merged, err := json.Marshal(merge(p.Defaults, given))
	if err != nil {
		return Source{}, err
	}
	defaults, err := json.Marshal(p.Defaults)
	if err != nil {
		return Source{}, err
	}
	return Source{Config: merged, Defaults: defaults, PresetHosts: p.Hosts}, nil
}

// objectOf reads a configuration; a missing one is an empty object.
func objectOf(config json.RawMessage) (map[string]any, error) {
	if len(config) == 0 {
		return map[string]any{}, nil
	}
	if len(config) > configLimit {
		return nil, fmt.Errorf("config: %d bytes: want %d at most", len(config), configLimit)
	}
	if depthOf(config) > depthLimit {
		return nil, fmt.Errorf("config: more than %d objects and lists in one another", depthLimit)
	}
	var given map[string]any
	if err := decode(config, &given); err != nil || given == nil {
		return nil, fmt.Errorf("config: want an object, not %s", jsontype.Of(config))
	}
	return given, nil
}

// depthOf returns how deep objects and lists are nested.
func depthOf(text []byte) (deepest int) {
	depth := 0
	for c := range bound.Structure(text) {
		switch c {
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
	}
	return deepest
}

// sets tells whether an object has a value at a path, or a value that is no object on the
// way to it.
func sets(object map[string]any, path []string) bool {
	// Field names are matched as the decoder matches them, which is exactly.
	value, ok := object[path[0]]
	if !ok || len(path) == 1 {
		return ok
	}
	inner, isObject := value.(map[string]any)
	return !isObject || sets(inner, path[1:])
}

// merge puts one object over another. A reference is replaced as a whole: half of one and half
// of another would name a third Secret.
func merge(under, over map[string]any) map[string]any {
	merged := maps.Clone(under)
	if merged == nil {
		merged = map[string]any{}
	}
	for key, value := range over {
		inner, isObject := value.(map[string]any)
		below, wasObject := merged[key].(map[string]any)
		if isObject && wasObject && key != "valueFrom" && !isReference(key) {
			value = merge(below, inner)
		}
		merged[key] = value
	}
	return merged
}

// isReference tells whether a key is that of a reference to a Secret or a ConfigMap.
func isReference(key string) bool {
	return strings.EqualFold(key, "secretKeyRef") || strings.EqualFold(key, "configMapKeyRef")
}

// rejectOtherNamespaces returns an error if a Rollout's configuration refers to a Secret
// or a ConfigMap by namespace. The controller may read those of all namespaces, and the
// author of a Rollout must not gain that access: only a preset can name a namespace.
func rejectOtherNamespaces(given map[string]any) error {
	if path := namespacePath(given); path != "" {
		return fmt.Errorf("%s: a Rollout refers to Secrets and ConfigMaps of its own namespace alone; those of another one are for a preset to name", path)
	}
	return nil
}

// namespacePath returns the path of a namespace in a reference; empty if there is none. It
// builds the path from its end, so that it builds only one.
func namespacePath(value any) string {
	switch value := value.(type) {
	case []any:
		for i, item := range value {
			if path := namespacePath(item); path != "" {
				return fmt.Sprintf("[%d].%s", i, path)
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if ref, ok := value[key].(map[string]any); ok && isReference(key) {
				for field := range ref {
					if strings.EqualFold(field, "namespace") {
						return key + "." + field
					}
				}
			}
			path := namespacePath(value[key])
			if strings.HasPrefix(path, "[") {
				return key + path
			}
			if path != "" {
				return key + "." + path
			}
		}
	}
	return ""
}
