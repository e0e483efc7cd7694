package gatewayapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/internal/jsontype"
	"github.com/kedify/argo-rollouts-plugin/internal/nearest"
)

// The keys of the configuration. Those of a kind are made of Kind.key.
const (
	keyNamespace       = "namespace"
	keyName            = "name"
	keyUseHeaderRoutes = "useHeaderRoutes"
	keyRules           = "rules"
	keyDisableLabel    = "disableInProgressLabel"
	keyLabelKey        = "inProgressLabelKey"
	keyLabelValue      = "inProgressLabelValue"
	keyVerification    = "verification"
	keyConfigMap       = "configMap"
	keysList           = "s"
	keysSelector       = "Selector"
)

func configKeys() []string {
	keys := []string{keyNamespace}
	for _, kind := range Kinds {
		keys = append(keys, kind.key(), kind.key()+keysList, kind.key()+keysSelector)
	}
	return append(keys, keyRules, keyDisableLabel, keyLabelKey, keyLabelValue, keyVerification, keyConfigMap)
}

// IsConfig tells whether a value names or selects a route, and so is a configuration
// for this router, valid or not.
func IsConfig(raw json.RawMessage) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return false
	}
	for written := range fields {
		for _, kind := range Kinds {
			for _, key := range []string{kind.key(), kind.key() + keysList, kind.key() + keysSelector} {
				if strings.EqualFold(key, written) {
					return true
				}
			}
		}
	}
	return false
}

// parser collects warnings.
type parser struct {
	warnings []string
	unknown  []string // the warnings about unknown keys
}

func (p *parser) warn(format string, args ...any) {
	p.warnings = append(p.warnings, fmt.Sprintf(format, args...))
}

// object decodes a JSON object whose keys are matched without regard to case, and
// returns its values under the known keys. Of two spellings of one key the exact
// one counts, else the first of the alphabet.
func (p *parser) object(raw json.RawMessage, at string, known []string) (map[string]json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		where := at
		if where == "" {
			where = "the configuration"
		}
		return nil, fmt.Errorf("%s: want an object with %s, got %s", where, strings.Join(known[:min(len(known), 3)], ", "), jsontype.Of(raw))
	}
	if at != "" {
		at += "."
	}
	found := map[string]json.RawMessage{}
	for _, key := range known {
		if value, ok := fields[key]; ok {
			found[key] = value
		}
	}
	for _, written := range slices.Sorted(maps.Keys(fields)) {
		i := slices.IndexFunc(known, func(key string) bool { return strings.EqualFold(key, written) })
		switch {
		case i < 0:
			p.warn("unknown key %q is ignored: did you mean %q?", at+written, at+nearest.Word(written, known))
			p.unknown = append(p.unknown, p.warnings[len(p.warnings)-1])
		case known[i] == written:
		case found[known[i]] != nil:
			p.warn("key %q is ignored: %q is there, too, in another spelling", at+written, at+known[i])
		default:
			found[known[i]] = fields[written]
		}
	}
	return found, nil
}

// isLeftOut tells whether a key has no value: absent or null.
func isLeftOut(raw json.RawMessage) bool {
	return len(raw) == 0 || bytes.Equal(bytes.TrimSpace(raw), []byte("null"))
}

func text(raw json.RawMessage, at, what string) (string, error) {
	if isLeftOut(raw) {
		return "", nil
	}
	var value string
	if err := json.Unmarshal(raw, &value); err != nil {
		return "", fmt.Errorf("%s: want %s, got %s", at, what, jsontype.Of(raw))
	}
	return value, nil
}

func boolean(raw json.RawMessage, at string) (bool, error) {
	if isLeftOut(raw) {
		return false, nil
	}
	var value bool
	if err := json.Unmarshal(raw, &value); err != nil {
		return false, fmt.Errorf("%s: want true or false, got %s", at, jsontype.Of(raw))
	}
	return value, nil
}

func list(raw json.RawMessage, at, what string) ([]json.RawMessage, error) {
	if isLeftOut(raw) {
		return nil, nil
	}
	var values []json.RawMessage
	if err := json.Unmarshal(raw, &values); err != nil {
		return nil, fmt.Errorf("%s: want %s, got %s", at, what, jsontype.Of(raw))
	}
	return values, nil
}

// names reads a list of names, none of them empty; nil when it is left out or
// empty.
func names(raw json.RawMessage, at, what string) ([]string, error) {
	values, err := list(raw, at, "a list of "+what)
	if err != nil {
		return nil, err
	}
	var result []string
	for i, value := range values {
		at := fmt.Sprintf("%s[%d]", at, i)
		name, err := text(value, at, "one of "+what)
		if err != nil {
			return nil, err
		}
		if name == "" {
			return nil, fmt.Errorf("%s is empty: want one of %s", at, what)
		}
		if !slices.Contains(result, name) {
			result = append(result, name)
		}
	}
	return result, nil
}
