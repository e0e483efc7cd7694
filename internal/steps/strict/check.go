package strict

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kedify/argo-rollouts-plugin/internal/nearest"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/bound"
)

// check returns what is wrong with a JSON value for a pointer to a Go value, each with its
// path.
func check(text []byte, into any) []string {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	c := &checker{decoder: decoder}
	c.value("", reflect.TypeOf(into).Elem(), required)
	return c.problems
}

// checker reads a JSON value token by token beside the Go type that it is for.
type checker struct {
	decoder  *json.Decoder
	problems []string
	depth    int
}

// maxDepth bounds how deeply objects and lists are nested.
const maxDepth = 100

// Whether a value may be null, which means that its key is not set. An item of a list may
// not.
const (
	optional = true
	required = false
)

// anything is the type of values that may be of any type.
var anything = reflect.TypeFor[any]()

// value checks the next value.
func (c *checker) value(path string, want reflect.Type, null bool) {
	for want.Kind() == reflect.Pointer {
		want, null = want.Elem(), optional
	}
	c.depth++
	defer func() { c.depth-- }()
	if c.depth > maxDepth {
		var skipped json.RawMessage
		_ = c.decoder.Decode(&skipped)
		c.problem("%s: more than %d objects and lists in one another", bound.Shorten(path, maxShown), maxDepth)
		return
	}
	if want != reflect.TypeFor[json.RawMessage]() && readsItself(want) {
		c.own(path, want, null)
		return
	}
	token, err := c.decoder.Token()
	if err != nil {
		return // The syntax was checked before.
	}
	switch token := token.(type) {
	case json.Delim:
		if token == '{' {
			c.object(path, want)
		} else {
			c.list(path, want)
		}
	case nil:
		if !null && !free(want) {
			c.wrong(path, expected(want), "null")
		}
	default:
		c.scalar(path, want, token)
	}
}

// free tells whether a Go type takes values of any JSON type.
func free(t reflect.Type) bool {
	return t.Kind() == reflect.Interface || t == reflect.TypeFor[json.RawMessage]()
}

// readsItself tells whether a type unmarshals itself, from JSON or from text.
func readsItself(t reflect.Type) bool {
	pointer := reflect.PointerTo(t)
	return t.Kind() != reflect.Interface &&
		(pointer.Implements(reflect.TypeFor[json.Unmarshaler]()) || pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()))
}

func (c *checker) object(path string, want reflect.Type) {
	var known map[string]reflect.Type
	all, null := anything, optional
	switch {
	case want.Kind() == reflect.Struct:
		known = fieldsOf(want)
	case want.Kind() == reflect.Map:
		all, null = want.Elem(), required
	case !free(want):
		c.wrong(path, expected(want), "an object")
	}
	seen := map[string]bool{}
	for c.decoder.More() {
		token, err := c.decoder.Token()
		if err != nil {
			return
		}
		key, _ := token.(string)
		under := Join(path, key)
		if seen[key] {
			c.problem("%s: the key is there twice", under)
		}
		seen[key] = true
		t := all
		if known != nil {
			field, ok := known[key]
			if t = field; !ok {
				c.unknown(under, key, known)
				t = anything
			}
		}
		c.value(under, t, null)
	}
	_, _ = c.decoder.Token()
}

// unknown says that an object has a key that it cannot have.
func (c *checker) unknown(path, key string, known map[string]reflect.Type) {
	suggestion := ""
	if len(key) <= maxShown {
		suggestion = nearest.Word(key, slices.Sorted(maps.Keys(known)))
	}
	if suggestion == "" {
		c.problem("%s: the key is not known", path)
		return
	}
	c.problem("%s: the key is not known: did you mean %q?", path, suggestion)
}

func (c *checker) list(path string, want reflect.Type) {
	item := anything
	switch {
	case want.Kind() == reflect.Array, want.Kind() == reflect.Slice && want.Elem().Kind() != reflect.Uint8:
		item = want.Elem()
	case !free(want):
		c.wrong(path, expected(want), "a list")
	}
	for i := 0; c.decoder.More(); i++ {
		c.value(fmt.Sprintf("%s[%d]", path, i), item, required)
	}
	_, _ = c.decoder.Token()
}

// scalar checks a string, a number or a boolean.
func (c *checker) scalar(path string, want reflect.Type, token json.Token) {
	if free(want) {
		return
	}
	there := "a string"
	fits := false
	switch token := token.(type) {
	case string:
		fits = want.Kind() == reflect.String || want.Kind() == reflect.Slice && want.Elem().Kind() == reflect.Uint8
	case bool:
		there = strconv.FormatBool(token)
		fits = want.Kind() == reflect.Bool
	case json.Number:
		there = bound.Shorten(token.String(), maxShown)
		fits = json.Unmarshal([]byte(token), reflect.New(want).Interface()) == nil
	}
	switch {
	case fits:
	case want.Kind() == reflect.String:
		c.wrong(path, expected(want), there+": put it in quotes")
	default:
		c.wrong(path, expected(want), there)
	}
}

// own checks a value of a type that unmarshals itself.
func (c *checker) own(path string, want reflect.Type, null bool) {
	var raw json.RawMessage
	if err := c.decoder.Decode(&raw); err != nil {
		return
	}
	if string(raw) == "null" {
		if !null {
			c.wrong(path, expected(want), "null")
		}
		return
	}
	// Duplicate keys are wrong in such a value too.
	inner := &checker{decoder: json.NewDecoder(bytes.NewReader(raw)), depth: c.depth}
	inner.value(path, anything, optional)
	c.problems = append(c.problems, inner.problems...)
	err := json.Unmarshal(raw, reflect.New(want).Interface())
	if err == nil {
		return
	}
	if words, ok := wording[want]; ok {
		c.wrong(path, words, bound.Shorten(string(raw), maxShown))
		return
	}
	c.problem("%s: want %s: %s", orValue(path), expected(want), bound.Shorten(err.Error(), maxShown))
}

// wording says what value is expected for types that unmarshal themselves.
var wording = map[reflect.Type]string{
	reflect.TypeFor[metav1.Duration]():    "a duration such as 5m",
	reflect.TypeFor[metav1.Time]():        "a time such as 2026-01-02T15:04:05Z",
	reflect.TypeFor[metav1.MicroTime]():   "a time such as 2026-01-02T15:04:05.000000Z",
	reflect.TypeFor[intstr.IntOrString](): "a whole number, or a string such as 25%",
	reflect.TypeFor[resource.Quantity]():  "a quantity such as 500m or 128Mi",
}

// expected says what JSON value a Go type is read from.
func expected(t reflect.Type) string {
	if words, ok := wording[t]; ok {
		return words
	}
	if readsItself(t) {
		return "a " + t.Name()
	}
	switch t.Kind() {
	case reflect.Pointer:
		return expected(t.Elem())
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return "a string in base64"
		}
		return "a list"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number that is not negative"
	default:
		return "a " + t.String()
	}
}

func (c *checker) wrong(path, want, there string) {
	c.problem("%s: want %s, not %s", orValue(path), want, there)
}

func (c *checker) problem(format string, args ...any) {
	if len(c.problems) < maxProblems {
		c.problems = append(c.problems, fmt.Sprintf(format, args...))
	}
}

// orValue returns the path of a value for a message; the path of the whole value is empty.
func orValue(path string) string {
	if path == "" {
		return "the value"
	}
	return path
}

// maxShown bounds what a message shows of a key or a value, in bytes.
const maxShown = 64

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// Join returns the path of a key in the object at a path: request.url, or
// labels["app.kubernetes.io/name"] for a key that is not a plain word.
func Join(path, key string) string {
	key = bound.Shorten(key, maxShown)
	switch {
	case !plainKey.MatchString(strings.TrimSuffix(key, "…")):
		return path + "[" + strconv.Quote(key) + "]"
	case path == "":
		return key
	default:
		return path + "." + key
	}
}
