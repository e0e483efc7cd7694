package gatewayapi

import (
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// RemoveRoute decides what a route should be without one header or mirror route of
// a Rollout. Weights stay as they are. It does not need the Rollout's
// configuration.
func RemoveRoute(route *unstructured.Unstructured, ro Rollout, name string) (Decision, error) {
	return remove(route, ro, func(other string) bool { return other == name })
}

// RemoveManagedRoutes decides what a route should be without any header or mirror
// route of a Rollout. Weights stay as they are: Argo Rollouts calls this before it
// sets the present weight once more. It does not need the Rollout's configuration.
func RemoveManagedRoutes(route *unstructured.Unstructured, ro Rollout) (Decision, error) {
	return remove(route, ro, func(string) bool { return true })
}

func remove(route *unstructured.Unstructured, ro Rollout, is func(string) bool) (Decision, error) {
	d, err := newDraft(route, ro)
	if err != nil {
		return Decision{}, err
	}
	for _, m := range d.own.Routes {
		if is(m.Name) {
			d.removeRoute(m.Name)
		}
	}
	for _, name := range ro.ManagedRoutes {
		if is(name) {
			d.removeRoute(name)
		}
	}
	return d.finish(), nil
}

// removeRoute removes a header or mirror route and its rules: the rules that are
// recorded for it, and rules named after it, which another plugin has made, or this one
// before the annotation was removed.
func (d *draft) removeRoute(name string) {
	d.own.Routes = slices.DeleteFunc(slices.Clone(d.own.Routes), func(m managedRoute) bool { return m.Name == name })
	d.rules = slices.DeleteFunc(slices.Clone(d.rules), func(r *rule) bool { return r.owner == d.key() && r.route == name })
	d.dropUnrecordedRules(name)
}

// isNamedAfter tells whether a rule without a record was made for a managed route of
// the Rollout: it has the route's name, or the name and a number, and sends requests to
// the canary alone or mirrors them to it.
func (d *draft) isNamedAfter(r *rule, name string) bool {
	if r.owner != "" || r.body == nil || name == "" || !slices.Contains(d.ro.ManagedRoutes, name) {
		return false
	}
	if r.name() != name && (!isNumbered(r.name(), name) || slices.Contains(d.ro.ManagedRoutes, r.name())) {
		return false
	}
	refs := r.refs()
	return len(refs) > 0 && len(d.refsTo(r, d.canary())) == len(refs) || d.mirrorsToCanary(r)
}

var ordinal = regexp.MustCompile(`^-[1-9][0-9]*$`)

// isNumbered tells whether a name is another one with a number.
func isNumbered(name, base string) bool {
	return len(name) > len(base) && name[:len(base)] == base && ordinal.MatchString(name[len(base):])
}

// dropUnrecordedRules removes the rules that are named after a managed route and have
// no record.
func (d *draft) dropUnrecordedRules(name string) {
	d.rules = slices.DeleteFunc(slices.Clone(d.rules), func(r *rule) bool { return d.isNamedAfter(r, name) })
}
