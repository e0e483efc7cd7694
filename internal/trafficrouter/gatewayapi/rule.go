package gatewayapi

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// rule is a rule of a route. It is the user's unless owner says for whom the router has
// made it.
type rule struct {
	// raw is the rule as it is in the list; body is the same where it is an object.
	raw  any
	body map[string]any
	// owner is the key of a managed rule's owner, and route the name of the header or
	// mirror route that it was made for.
	owner, route string
	// given is the name that the router gives a managed rule; an old CRD drops it.
	given string
	// before is true for a managed rule that stands before the user's rule that it
	// was made from; all others stand at the end.
	before bool
}

func (r *rule) name() string {
	name, _ := r.body["name"].(string)
	return name
}

// refs are the backendRefs of a rule; changes to them are changes to the rule.
func (r *rule) refs() []map[string]any { return objects(r.body["backendRefs"]) }

// refsTo are the backendRefs of a rule that refer to a Service.
func (d *draft) refsTo(r *rule, s service) []map[string]any {
	var refs []map[string]any
	for _, ref := range r.refs() {
		if backendOf(ref, d.namespace).isService(s) {
			refs = append(refs, ref)
		}
	}
	return refs
}

// holdsBoth tells whether a rule holds the stable and the canary Service.
func (d *draft) holdsBoth(r *rule) bool {
	return d.ro.Stable != d.ro.Canary && len(d.refsTo(r, d.stable())) > 0 && len(d.refsTo(r, d.canary())) > 0
}

// copyOf is a deep copy of decoded JSON.
func copyOf[T any](value T) T {
	result, _ := runtime.DeepCopyJSONValue(value).(T)
	return result
}

// filter returns the items of a list that are to be kept.
func filter[T any](list []T, keep func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(list), func(item T) bool { return !keep(item) })
}
