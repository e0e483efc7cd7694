package gatewayapi

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// annotationsOf returns the annotations of a route that are text, without copying
// the route.
func annotationsOf(route *unstructured.Unstructured) map[string]string {
	return stringsOf(route, "annotations")
}

func stringsOf(route *unstructured.Unstructured, field string) map[string]string {
	metadata, _ := route.Object["metadata"].(map[string]any)
	values, _ := metadata[field].(map[string]any)
	result := map[string]string{}
	for key, value := range values {
		if s, ok := value.(string); ok {
			result[key] = s
		}
	}
	return result
}

// setMetadata sets a label or an annotation, or removes it for nil; an empty map is
// removed too.
func setMetadata(route *unstructured.Unstructured, field, key string, value *string) {
	metadata, ok := route.Object["metadata"].(map[string]any)
	if !ok {
		if value == nil {
			return
		}
		metadata = map[string]any{}
		route.Object["metadata"] = metadata
	}
	values, ok := metadata[field].(map[string]any)
	switch {
	case value != nil && !ok:
		metadata[field] = map[string]any{key: *value}
	case value != nil:
		values[key] = *value
	case ok:
		if _, has := values[key]; !has {
			return
		}
		delete(values, key)
		if len(values) == 0 {
			delete(metadata, field)
		}
	}
}
