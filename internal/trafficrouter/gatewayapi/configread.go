package gatewayapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/internal/jsontype"
	"github.com/kedify/argo-rollouts-plugin/internal/nearest"
)

// words say what belongs under a key, or in a list of which they say what it is.
var words = map[string]string{
	"namespace":                    "the namespace of the routes",
	"name":                         "the name of the route",
	"useHeaderRoutes":              "true or false",
	"rules":                        "a list of the names of rules",
	"a list of the names of rules": "one of the names of rules",
	"ruleName":                     "the name of a rule",
	"disableInProgressLabel":       "true or false",
	"inProgressLabelKey":           "the key of a label",
	"inProgressLabelValue":         "the value of a label",
	"matchLabels":                  "an object of strings",
	"matchExpressions":             "a list of {key, operator, values}",
	"key":                          "the key of a label",
	"operator":                     "In, NotIn, Exists or DoesNotExist",
	"values":                       "a list of label values",
	"a list of label values":       "the value of a label",
}

// reader reads JSON into structs as encoding/json does, keys in any case and null as left
// out, and says what it has not read: unknown keys, keys in two spellings, and by the path
// of its key what has another type than its field.
type reader struct {
	warnings []string
	unknown  []string // the warnings about unknown keys
	failures []error
}

func (r *reader) warn(format string, args ...any) {
	r.warnings = append(r.warnings, fmt.Sprintf(format, args...))
}

func (r *reader) fail(format string, args ...any) {
	r.failures = append(r.failures, fmt.Errorf(format, args...))
}

// read reads the value at a path, where want belongs.
func (r *reader) read(raw json.RawMessage, at, want string, into reflect.Value) {
	if len(raw) == 0 || bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return
	}
	var items []json.RawMessage
	custom, isCustom := into.Addr().Interface().(json.Unmarshaler)
	switch {
	case isCustom:
		if err := custom.UnmarshalJSON(raw); err != nil {
			r.fail("%s: %w", at, err)
		}
	case into.Kind() == reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		r.read(raw, at, want, into.Elem())
	case into.Kind() == reflect.Struct:
		keys := keysOf(into.Type())
		r.fields(r.object(raw, at, keys), at+".", into)
	case into.Kind() == reflect.Slice && json.Unmarshal(raw, &items) == nil:
		into.Set(reflect.MakeSlice(into.Type(), len(items), len(items)))
		for i, item := range items {
			r.read(item, fmt.Sprintf("%s[%d]", at, i), words[want], into.Index(i))
		}
	case into.Kind() == reflect.Slice || json.Unmarshal(raw, into.Addr().Interface()) != nil:
		r.fail("%s: want %s, got %s", at, want, jsontype.Of(raw))
	}
}

// fields reads the values under the keys of a struct.
func (r *reader) fields(values map[string]json.RawMessage, at string, into reflect.Value) {
	for i, key := range keysOf(into.Type()) {
		r.read(values[key], at+key, words[key], into.Field(i))
	}
}

// object returns the values of a JSON object under the known keys. Of two spellings of one
// key the exact one counts, else the first of the alphabet.
func (r *reader) object(raw json.RawMessage, at string, known []string) map[string]json.RawMessage {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(raw, &values); err != nil || values == nil {
		if at == "" {
			at = "the configuration"
		}
		r.fail("%s: want an object with %s, got %s", at, strings.Join(known[:min(len(known), 3)], ", "), jsontype.Of(raw))
		return nil
	}
	if at != "" {
		at += "."
	}
	for _, written := range slices.Sorted(maps.Keys(values)) {
		i := slices.IndexFunc(known, func(key string) bool { return strings.EqualFold(key, written) })
		if i < 0 {
			r.warn("unknown key %q is ignored: did you mean %q?", at+written, at+nearest.Word(written, known))
			r.unknown = append(r.unknown, r.warnings[len(r.warnings)-1])
		} else if _, ok := values[known[i]]; !ok {
			values[known[i]] = values[written]
		} else if known[i] != written {
			r.warn("key %q is ignored: %q is there, too, in another spelling", at+written, at+known[i])
		}
	}
	return values
}

// keysOf returns the JSON names of a struct's fields, in their order.
func keysOf(t reflect.Type) []string {
	keys := make([]string, t.NumField())
	for i := range keys {
		keys[i], _, _ = strings.Cut(t.Field(i).Tag.Get("json"), ",")
	}
	return keys
}
