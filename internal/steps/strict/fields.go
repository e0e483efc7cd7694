package strict

import (
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Key is a key of the object that a struct is read from.
type Key struct {
	Name string
	// Field is the struct's field, and In the struct that has it: the one that is read, or
	// one that is embedded in it.
	Field reflect.StructField
	In    reflect.Type
}

// Keys returns the keys of a struct, in the order of its fields, those of embedded structs
// after its own. Where two have the same name, the one that is embedded less deep counts.
func Keys(t reflect.Type) []Key {
	var keys, embedded []Key
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		inner := field.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case name == "-":
		case field.Anonymous && name == "" && inner.Kind() == reflect.Struct:
			embedded = append(embedded, Keys(inner)...)
		case field.IsExported():
			if name == "" {
				name = field.Name
			}
			keys = append(keys, Key{name, field, t})
		}
	}
	for _, key := range embedded {
		if !slices.ContainsFunc(keys, func(k Key) bool { return k.Name == key.Name }) {
			keys = append(keys, key)
		}
	}
	return keys
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// maxShown bounds what a path shows of a key, in bytes.
const maxShown = 64

// Join returns the path of a key in the object at a path: request.url, or
// labels["app.kubernetes.io/name"] for a key that is not a plain word.
func Join(path, key string) string {
	shown := key
	if len(key) > maxShown {
		shown = strings.ToValidUTF8(key[:maxShown], "") + "…"
	}
	switch {
	case !plainKey.MatchString(strings.TrimSuffix(shown, "…")):
		return path + "[" + strconv.Quote(shown) + "]"
	case path == "":
		return shown
	default:
		return path + "." + shown
	}
}
