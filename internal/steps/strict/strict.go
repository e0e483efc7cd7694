// Package strict reads configuration from JSON as Kubernetes' API server does with
// fieldValidation: Strict: it refuses unknown keys, keys that are there twice and values of the
// wrong type.
package strict

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	strictjson "sigs.k8s.io/json"

	"github.com/kedify/argo-rollouts-plugin/internal/nearest"
)

// Error says what in a text is not as its type has it, by the path of the key, such as
// "request.headers". A text with an Error is wrong whatever is merged over it.
type Error struct {
	text string
	// Unknown is true if there are keys that the type does not have.
	Unknown bool
}

// Error names the key first.
func (e *Error) Error() string { return e.text }

func errorf(format string, args ...any) error { return &Error{text: fmt.Sprintf(format, args...)} }

// maxProblems bounds how many unknown keys an error names.
const maxProblems = 5

// Decode reads a JSON value into a pointer to a Go value that is zero. Keys are the JSON
// names of struct fields, case and all; those of an embedded struct belong to the struct
// around it. null is a key that is not set.
//
// The error, an *Error, names unknown keys (with the nearest known one) and those that are
// there twice, or the first value of the wrong type. It does not show values.
func Decode(text []byte, into any) error {
	inStrict, err := strictjson.UnmarshalStrict(text, into)
	if isSyntax, offset := strictjson.SyntaxErrorOffset(err); isSyntax {
		before := text[:min(int(offset), len(text))]
		return errorf("no valid JSON: line %d: %v", 1+bytes.Count(before, []byte("\n")), err)
	}
	t := reflect.TypeOf(into).Elem()
	if err != nil {
		path, cause := failing("", text, t)
		if cause == nil {
			cause = err
		}
		return errorf("%s", mismatch(path, cause))
	}
	var problems []string
	for _, problem := range inStrict[:min(len(inStrict), maxProblems)] {
		var field strictjson.FieldError
		if !errors.As(problem, &field) {
			return errorf("%v", problem)
		}
		path := field.FieldPath()
		words := strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune(".[]", r) })
		switch near := nearestKey(t, words); {
		case strings.HasPrefix(problem.Error(), "duplicate"):
			problems = append(problems, path+": the key is there twice")
		case near == "":
			problems = append(problems, path+": the key is not known")
		default:
			problems = append(problems, fmt.Sprintf("%s: the key is not known: did you mean %q?", path, near))
		}
	}
	if len(problems) > 0 {
		return &Error{text: strings.Join(problems, "; "), Unknown: true}
	}
	return nil
}

// mismatch says what is wrong with the value at a path.
func mismatch(path string, err error) string {
	if path == "" {
		path = "the value"
	}
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return fmt.Sprintf("%s: %v", path, err)
	}
	there, _, _ := strings.Cut(wrong.Value, " ")
	switch there {
	case "array":
		there = "a list"
	case "object":
		there = "an object"
	case "bool":
		there = "true or false"
	default:
		there = "a " + there
	}
	want := expected(wrong.Type)
	if want == "a string" && (there == "a number" || there == "true or false") {
		there += ": put it in quotes"
	}
	return fmt.Sprintf("%s: want %s, not %s", path, want, there)
}

// expected says what JSON value a Go type is read from.
func expected(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return expected(t.Elem())
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	default:
		return "a whole number"
	}
}

// failing returns the path of the first value that its type does not take. The decoder's own
// error does not say where that is in a list or a map, or in a type that reads itself.
func failing(path string, text json.RawMessage, t reflect.Type) (string, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if readsItself(t) {
		err := json.Unmarshal(text, reflect.New(t).Interface())
		if err != nil && t == reflect.TypeFor[metav1.Duration]() {
			err = errors.New("want a duration such as 5m, as a string")
		}
		return path, err
	}
	var keys map[string]json.RawMessage
	var items []json.RawMessage
	switch t.Kind() {
	case reflect.Struct:
		_ = json.Unmarshal(text, &keys)
		for _, key := range Keys(t) {
			if value, is := keys[key.Name]; is {
				if at, err := failing(Join(path, key.Name), value, key.Field.Type); err != nil {
					return at, err
				}
			}
		}
	case reflect.Map:
		_ = json.Unmarshal(text, &keys)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			if at, err := failing(Join(path, key), keys[key], t.Elem()); err != nil {
				return at, err
			}
		}
	case reflect.Slice, reflect.Array:
		_ = json.Unmarshal(text, &items)
		for i, item := range items {
			if at, err := failing(fmt.Sprintf("%s[%d]", path, i), item, t.Elem()); err != nil {
				return at, err
			}
		}
	}
	return path, json.Unmarshal(text, reflect.New(t).Interface())
}

// readsItself tells whether a type unmarshals itself, from JSON or from text.
func readsItself(t reflect.Type) bool {
	pointer := reflect.PointerTo(t)
	return pointer.Implements(reflect.TypeFor[json.Unmarshaler]()) || pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// nearestKey returns the key that may have been meant by the last word of a path; empty if there
// is none to know.
func nearestKey(t reflect.Type, path []string) string {
	switch t.Kind() {
	case reflect.Pointer:
		return nearestKey(t.Elem(), path)
	case reflect.Map, reflect.Slice, reflect.Array:
		if len(path) > 1 {
			return nearestKey(t.Elem(), path[1:])
		}
	case reflect.Struct:
		var known []string
		for _, key := range Keys(t) {
			if len(path) > 1 && key.Name == path[0] {
				return nearestKey(key.Field.Type, path[1:])
			}
			known = append(known, key.Name)
		}
		if len(path) == 1 {
			return nearest.Word(path[0], known)
		}
	}
	return ""
}
