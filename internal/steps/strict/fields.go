package strict

import (
	"reflect"
	"slices"
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
	var keys []Key
	level, visited := []reflect.Type{t}, map[reflect.Type]bool{t: true}
	for len(level) > 0 {
		var next []reflect.Type
		for _, t := range level {
			for i := range t.NumField() {
				field := t.Field(i)
				tag := field.Tag.Get("json")
				name, _, _ := strings.Cut(tag, ",")
				inner := field.Type
				if inner.Kind() == reflect.Pointer {
					inner = inner.Elem()
				}
				switch {
				case tag == "-":
					continue
				case field.Anonymous && name == "" && inner.Kind() == reflect.Struct:
					if !visited[inner] {
						visited[inner] = true
						next = append(next, inner)
					}
					continue
				case !field.IsExported():
					continue
				case name == "":
					name = field.Name
				}
				if !slices.ContainsFunc(keys, func(k Key) bool { return k.Name == name }) {
					keys = append(keys, Key{name, field, t})
				}
			}
		}
		level = next
	}
	return keys
}

// fieldsOf returns the types of a struct's keys by their names.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for _, key := range Keys(t) {
		fields[key.Name] = key.Field.Type
	}
	return fields
}
