package kube

import (
	"encoding/json"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// unwritten are the fields that a write leaves to the API server, by the map that
// contains them.
var unwritten = map[string][]string{
	"":         {"status"},
	"metadata": {"creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"},
}

// mergePatch returns the JSON merge patch (RFC 7386) that turns current into desired,
// and nil when there is nothing to change. A list that differs is replaced as a whole.
// A merge patch cannot set a field to null: a field that is null in desired is removed.
func mergePatch(current, desired *unstructured.Unstructured) (map[string]any, error) {
	from, err := writable(current)
	if err != nil {
		return nil, err
	}
	to, err := writable(desired)
	if err != nil {
		return nil, err
	}
	return difference(from, to), nil
}

// writable returns a copy of the fields that a write may change. It goes through JSON,
// so that equal values are equal whatever their Go types.
func writable(object *unstructured.Unstructured) (map[string]any, error) {
	text, err := json.Marshal(object.Object)
	if err != nil {
		return nil, err
	}
	copied, err := decode(text)
	if err != nil {
		return nil, err
	}
	for within, names := range unwritten {
		fields := copied.Object
		if within != "" {
			fields, _ = fields[within].(map[string]any)
		}
		for _, name := range names {
			delete(fields, name)
		}
	}
	return copied.Object, nil
}

// difference returns the fields of to that are not the same in from, with null for the
// fields to remove.
func difference(from, to map[string]any) map[string]any {
	var patch map[string]any
	set := func(key string, value any) {
		if patch == nil {
			patch = map[string]any{}
		}
		patch[key] = value
	}
	for key, value := range to {
		old, there := from[key]
		switch {
		case there && reflect.DeepEqual(old, value), !there && value == nil:
			continue
		}
		oldFields, isMap := old.(map[string]any)
		fields, becomesMap := value.(map[string]any)
		if isMap && becomesMap {
			if within := difference(oldFields, fields); within != nil {
				set(key, within)
			}
			continue
		}
		set(key, value)
	}
	for key := range from {
		if _, there := to[key]; !there {
			set(key, nil)
		}
	}
	return patch
}
