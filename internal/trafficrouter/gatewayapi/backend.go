package gatewayapi

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Backend names what a backendRef refers to.
type Backend struct {
	Group, Kind, Namespace, Name string
	Port                         int64
}

// service is a Service that backendRefs may refer to.
type service struct{ namespace, name string }

// backendOf reads a backendRef with the defaults of the CRD, in a route of a
// namespace.
func backendOf(ref map[string]any, namespace string) Backend {
	b := Backend{Kind: "Service", Namespace: namespace}
	b.Group, _ = ref["group"].(string)
	if kind, ok := ref["kind"].(string); ok && kind != "" {
		b.Kind = kind
	}
	if ns, ok := ref["namespace"].(string); ok && ns != "" {
		b.Namespace = ns
	}
	b.Name, _ = ref["name"].(string)
	b.Port, _ = number(ref["port"])
	return b
}

// BackendsOf returns what the backendRefs of a route's rules refer to, each once, in
// the order of the route.
func BackendsOf(route *unstructured.Unstructured) []Backend {
	var backends []Backend
	spec, _ := route.Object["spec"].(map[string]any)
	for _, rule := range objects(spec["rules"]) {
		for _, ref := range objects(rule["backendRefs"]) {
			if b := backendOf(ref, route.GetNamespace()); !slices.Contains(backends, b) {
				backends = append(backends, b)
			}
		}
	}
	return backends
}

// isService tells whether the backend is a Service.
func (b Backend) isService(s service) bool {
	return b.Group == "" && b.Kind == "Service" && b.Namespace == s.namespace && b.Name == s.name
}

// weightOf is the weight of a backendRef.
func weightOf(ref map[string]any) int64 {
	if weight, ok := number(ref["weight"]); ok {
		return weight
	}
	return 1
}

// setWeight sets the weight of a backendRef, or removes the field for nil. An equal
// weight stays as it is written.
func setWeight(ref map[string]any, weight *int64) {
	if weight == nil {
		delete(ref, "weight")
		return
	}
	if now, ok := number(ref["weight"]); !ok || now != *weight {
		ref["weight"] = *weight
	}
}

// number reads a whole number of decoded JSON.
func number(value any) (int64, bool) {
	switch n := value.(type) {
	case int64:
		return n, true
	case float64:
		return int64(n), n == float64(int64(n))
	}
	return 0, false
}

// objects returns the objects in a list of decoded JSON, without its other items.
func objects(list any) []map[string]any {
	values, _ := list.([]any)
	var result []map[string]any
	for _, value := range values {
		if object, ok := value.(map[string]any); ok {
			result = append(result, object)
		}
	}
	return result
}
