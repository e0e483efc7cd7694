package strict

import (
	"reflect"
	"strings"
)

// fieldsOf returns the fields of a struct by their JSON names, those of embedded structs
// included. Where two have the same name, the one that is embedded less deep counts.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	level, visited := []reflect.Type{t}, map[reflect.Type]bool{t: true}
	for len(level) > 0 {
		var next []reflect.Type
		found := map[string]reflect.Type{}
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
				case field.Anonymous && name == "" && inner.Kind() == reflect.Struct:
					if !visited[inner] {
						visited[inner] = true
						next = append(next, inner)
					}
				case !field.IsExported():
				case name == "":
					found[field.Name] = field.Type
				default:
					found[name] = field.Type
				}
			}
		}
		for name, t := range found {
			if _, shallower := fields[name]; !shallower {
				fields[name] = t
			}
		}
		level = next
	}
	return fields
}
