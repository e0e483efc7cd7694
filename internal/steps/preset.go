package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/jsontype"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/strict"
)

const (
	// PresetKey is the key of a ConfigMap that holds a preset.
	PresetKey = "preset.yaml"
	// PresetLabel is the label of the ConfigMaps that steps can name with `use`; its value is
	// "true".
	PresetLabel = "rollouts.kedify.io/step-preset"
)

const (
	// configLimit bounds the configuration of a step, and a preset, in bytes of JSON.
	configLimit = 64 << 10
	// depthLimit bounds how deep objects and lists are nested.
	depthLimit = 100
)

// Preset is what an admin gives the steps that name it with `use`, or those of a registration.
type Preset struct {
	// Defaults is the configuration of a step that says nothing else. The plugin merges objects
	// with the Rollout's, key by key. The Rollout's lists, values and references to Secrets
	// replace those of the preset as a whole.
	Defaults map[string]any `json:"defaults,omitempty"`
	// Locked are the keys, such as `http.request.url`, that a Rollout may not set, with all keys
	// under them. A key of a request is then locked in `server`, too. A key of `job` is then
	// locked in `onAbort`, too, and so is `from` of both. `*` is all keys but `use`. A step that
	// sets a locked key fails.
	Locked []string `json:"locked,omitempty"`
	// Hosts are where requests may go, besides those of `--allow-host`: `ci.example.com`,
	// `ci.example.com:8443`, an address, or `*.example.com` for every name below `example.com`,
	// at public addresses. Secrets of `--secrets-namespace` go to these alone.
	Hosts []string `json:"hosts,omitempty"`
	// Namespaces are those whose Rollouts may use the preset.
	//
	// Default: all.
	Namespaces []string `json:"namespaces,omitempty"`
	// Disabled makes steps that use the preset succeed without starting anything. Steps that
	// have begun go on.
	Disabled bool `json:"disabled,omitempty"`
	// Report tells the admin what is wrong with the preset once a step is read with it; nil where
	// there is no admin to tell.
	Report func(error) `json:"-"`
}

// PresetSource provides the presets of a registration.
type PresetSource interface {
	// Preset returns a preset as it is now; that of the registration itself has no name. It
	// returns a PresetError while the preset cannot be used.
	Preset(ctx context.Context, name string) (*Preset, error)
}

// PresetError says that a preset cannot be used now: it is not there, cannot be read, or is
// wrong in itself. A step that uses it waits.
type PresetError struct {
	Cause error
	// Last is the preset as it could last be used; nil if that is not known.
	Last *Preset
	// Gone is true if there is no such preset.
	Gone bool
}

// Error says why.
func (e *PresetError) Error() string { return e.Cause.Error() }

// Unwrap returns why.
func (e *PresetError) Unwrap() error { return e.Cause }

// ReadPreset reads a preset from YAML. The error names the key. Reader.Check tells what else
// can be wrong with a preset.
func ReadPreset(text []byte) (*Preset, error) {
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, err
	}
	if _, err := objectOf(asJSON); err != nil {
		return nil, fmt.Errorf("want an object with defaults, locked and hosts: %w", err)
	}
	var preset Preset
	if err := strict.Decode(asJSON, &preset); err != nil {
		return nil, err
	}
	for _, path := range preset.Locked {
		if path != "*" && slices.Contains(strings.Split(path, "."), "") {
			return nil, fmt.Errorf("locked: %q: want a key such as http.request.url, or *", path)
		}
	}
	for _, namespace := range preset.Namespaces {
		if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
			return nil, fmt.Errorf("namespaces: %q: want the name of a namespace: %s", namespace, strings.Join(problems, "; "))
		}
	}
	return &preset, nil
}

// Serves tells whether the Rollouts of a namespace may use the preset.
func (p *Preset) Serves(namespace string) bool {
	return len(p.Namespaces) == 0 || slices.Contains(p.Namespaces, namespace)
}

// Section returns what the preset gives steps of a kind, as JSON; null if it gives nothing.
func (p *Preset) Section(kind string) json.RawMessage {
	text, err := json.Marshal(p.Defaults[kind])
	if err != nil {
		panic(err) // never: it was JSON
	}
	return text
}

// lockedIn returns an error if an object sets a key that the preset locks.
func (p *Preset) lockedIn(given map[string]any) error {
	for _, lock := range p.Locked {
		if lock == "*" {
			for _, key := range slices.Sorted(maps.Keys(given)) {
				if key != "use" {
					return fmt.Errorf("%s: the preset lets a Rollout set nothing", key)
				}
			}
			continue
		}
		for _, path := range locksOf(lock) {
			if sets(given, strings.Split(path, ".")) {
				return fmt.Errorf("%s: the preset does not let a Rollout set this", path)
			}
		}
	}
	return nil
}

// locksOf returns the paths that a lock stands for: what a Rollout says of `server` would
// change every request, and a CronJob of its own every part of the Job; and what a Job may not
// be, that of `onAbort` may not be.
func locksOf(lock string) []string {
	kind, rest, _ := strings.Cut(lock, ".")
	request, key, _ := strings.Cut(rest, ".")
	switch {
	case kind == "http" && slices.Contains([]string{"request", "find", "poll", "cancel", "onAbort"}, request):
		return []string{lock, strings.TrimSuffix("http.server."+key, ".")}
	case kind == "job" && request == "onAbort" && key != "":
		return []string{lock, "job.onAbort.from"}
	case kind == "job" && rest != "" && rest != "logLines" && request != "onAbort":
		return []string{lock, "job.from", "job.onAbort." + rest, "job.onAbort.from"}
	}
	return []string{lock}
}

// objectOf reads a configuration; a missing one is an empty object.
func objectOf(config json.RawMessage) (map[string]any, error) {
	if len(config) == 0 {
		return map[string]any{}, nil
	}
	if len(config) > configLimit {
		return nil, fmt.Errorf("config: %d bytes: want %d at most", len(config), configLimit)
	}
	var given map[string]any
	if err := strictjson.UnmarshalCaseSensitivePreserveInts(config, &given); err != nil || given == nil {
		return nil, fmt.Errorf("config: want an object, not %s", jsontype.Of(config))
	}
	if isDeeper(given, depthLimit) {
		return nil, fmt.Errorf("config: more than %d objects and lists in one another", depthLimit)
	}
	return given, nil
}

// isDeeper tells whether a value has more than a number of objects and lists in one another.
func isDeeper(value any, limit int) bool {
	deeper := func(inner any) bool { return isDeeper(inner, limit-1) }
	switch value := value.(type) {
	case map[string]any:
		return limit == 0 || slices.ContainsFunc(slices.Collect(maps.Values(value)), deeper)
	case []any:
		return limit == 0 || slices.ContainsFunc(value, deeper)
	}
	return false
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
	return slices.Contains([]string{"secretkeyref", "configmapkeyref", "secretref"}, strings.ToLower(key))
}

// rejectOtherNamespaces returns an error if a Rollout's configuration refers to a Secret
// or a ConfigMap by namespace. The controller may read those of all namespaces, and the
// author of a Rollout must not gain that access: only a preset can name a namespace.
func rejectOtherNamespaces(given map[string]any) error {
	if path := namespacePath("", given); path != "" {
		return errors.New(path + ": a Rollout refers to Secrets and ConfigMaps of its own namespace alone; those of another one are for a preset to name")
	}
	return nil
}

// namespacePath returns the path of a namespace in a reference below a path; empty if there is
// none.
func namespacePath(path string, value any) (found string) {
	switch value := value.(type) {
	case []any:
		for i := 0; i < len(value) && found == ""; i++ {
			found = namespacePath(fmt.Sprintf("%s[%d]", path, i), value[i])
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			at := strict.Join(path, key)
			if ref, ok := value[key].(map[string]any); ok && isReference(key) {
				for field := range ref {
					if strings.EqualFold(field, "namespace") {
						return strict.Join(at, field)
					}
				}
			}
			if found = namespacePath(at, value[key]); found != "" {
				return found
			}
		}
	}
	return found
}
