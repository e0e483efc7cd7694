package gatewayapi

import (
	"regexp"
	"slices"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
)

// removeRoutes removes the header and mirror routes that a call is about, and the rules
// that were made for them without a record: by another plugin, or by this one before the
// annotation was removed. The recorded rules go when the others are rendered.
func (d *draft) removeRoutes(call RouteCall) {
	concerns := func(name string) bool { return call.RemoveAll || name == call.Name() }
	d.own.Routes = filter(d.own.Routes, func(m managedRoute) bool { return !concerns(m.Name) })
	for _, name := range d.ro.ManagedRoutes {
		if concerns(name) {
			d.dropUnrecorded(name)
		}
	}
}

// dropUnrecorded removes the rules that were made for a header or mirror route and have no
// record.
func (d *draft) dropUnrecorded(name string) {
	d.rules = filter(d.rules, func(r *rule) bool { return !d.wasMadeFor(r, name) })
}

// wasMadeFor tells whether a rule without a record was made for a managed route of the
// Rollout: it has the route's name, or the name and a number, and asks for what a step of
// that name does. Any other rule is the user's own.
func (d *draft) wasMadeFor(r *rule, name string) bool {
	if r.owner != "" || r.body == nil || name == "" || !slices.Contains(d.ro.ManagedRoutes, name) {
		return false
	}
	if r.name() != name && (!isNumbered(r.name(), name) || slices.Contains(d.ro.ManagedRoutes, r.name())) {
		return false
	}
	return slices.ContainsFunc(d.ro.Steps, func(step v1alpha1.CanaryStep) bool {
		call := RouteCall{Header: step.SetHeaderRoute, Mirror: step.SetMirrorRoute}
		if call.Name() != name || call.Removes() {
			return false
		}
		route, err := managedRouteOf(call, true)
		return err == nil && d.asksFor(r, route, d.key())
	})
}

var ordinal = regexp.MustCompile(`^-[1-9][0-9]*$`)

// isNumbered tells whether a name is another one with a number.
func isNumbered(name, base string) bool {
	number, ok := strings.CutPrefix(name, base)
	return ok && ordinal.MatchString(number)
}
