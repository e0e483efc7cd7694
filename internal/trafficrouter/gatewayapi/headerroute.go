package gatewayapi

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// SetHeaderRoute decides what a route should be for a call of that name: requests
// that have all headers of the step go to the canary, whatever the weights are. It
// makes a rule for each rule that the Rollout splits, with all that this one has,
// whose matches are the source's together with the headers. Without a match it
// removes the header route, as RemoveRoute does.
//
// It fails for a kind without headers, a route with no rule to split, another
// Rollout's rule (ForeignError), a step that cannot be said, and more rules or
// matches than a route takes. Warnings name what the header route does not cover,
// and the user's rules that win against it.
func SetHeaderRoute(route *unstructured.Unstructured, ro Rollout, step *v1alpha1.SetHeaderRoute) (Decision, error) {
	if step == nil {
		step = &v1alpha1.SetHeaderRoute{}
	}
	if len(step.Match) == 0 {
		return RemoveRoute(route, ro, step.Name)
	}
	d, err := newDraft(route, ro)
	if err != nil {
		return Decision{}, err
	}
	if !d.kind.TakesHeaderRoutes() {
		return Decision{}, d.errorf("header route %q: a %s has no headers to match; header routes are for HTTPRoute and GRPCRoute", step.Name, d.kind)
	}
	managed, err := headerRouteOf(step)
	if err != nil {
		return Decision{}, d.errorf("header route %q: %w", step.Name, err)
	}
	return d.setManaged(managed)
}

// headerName is what the CRD takes as the name of a header.
var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+\\-.^_`|~]{1,256}$")

const maxHeaderValue = 4096

// headerRouteOf says what a step asks for as routes say it.
func headerRouteOf(step *v1alpha1.SetHeaderRoute) (managedRoute, error) {
	managed := managedRoute{Name: step.Name}
	for i, m := range step.Match {
		at := fmt.Sprintf("match[%d]", i)
		if m.HeaderValue == nil {
			return managed, fmt.Errorf("%s.headerValue is missing", at)
		}
		h, err := headerOf(m.HeaderName, *m.HeaderValue)
		if err != nil {
			return managed, fmt.Errorf("%s: %w", at, err)
		}
		managed.Headers = append(managed.Headers, h)
	}
	// The same header twice is one condition, or a contradiction.
	if o := withHeaders(map[string]any{}, managed.Headers); o != some {
		return managed, fmt.Errorf("match names one header twice with values that no request, or no route, can have both")
	}
	return managed, nil
}

func headerOf(name string, value v1alpha1.StringMatch) (header, error) {
	if !headerName.MatchString(name) {
		return header{}, fmt.Errorf("%q is no valid name of a header", name)
	}
	c, err := conditionOf(value)
	if err != nil {
		return header{}, fmt.Errorf("value of header %s: %w", name, err)
	}
	c = c.asRegex()
	if len(c.Value) > maxHeaderValue {
		return header{}, fmt.Errorf("value of header %s has %d bytes, a route takes %d", name, len(c.Value), maxHeaderValue)
	}
	return header{name, c}, nil
}

// setManaged adds or replaces a header or mirror route.
func (d *draft) setManaged(managed managedRoute) (Decision, error) {
	if _, err := d.toSplit(); err != nil {
		return Decision{}, err
	}
	d.wish(managed)
	d.setting = managed.Name
	if err := d.renderManaged(); err != nil {
		return Decision{}, err
	}
	return d.finish(), nil
}

// wish notes what is wanted of a header or mirror route.
func (d *draft) wish(managed managedRoute) {
	d.own.Routes = slices.DeleteFunc(slices.Clone(d.own.Routes), func(m managedRoute) bool { return m.Name == managed.Name })
	d.own.Routes = append(d.own.Routes, managed)
	d.makeWay(managed.Name)
}

// makeWay takes away the rules of a managed route's name that nothing is known of.
func (d *draft) makeWay(name string) {
	d.rules = slices.DeleteFunc(slices.Clone(d.rules), func(r *rule) bool { return d.isNamedAfter(r, name) })
}

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

// removeRoute takes a header or mirror route and its rules away: those that are
// known to be its, and those that another plugin, or this one before somebody took
// the annotation away, has named after it.
func (d *draft) removeRoute(name string) {
	d.own.Routes = slices.DeleteFunc(slices.Clone(d.own.Routes), func(m managedRoute) bool { return m.Name == name })
	d.rules = slices.DeleteFunc(slices.Clone(d.rules), func(r *rule) bool { return r.owner == d.key() && r.route == name })
	d.makeWay(name)
}

// isNamedAfter tells whether a rule that nothing is known of was made for a managed
// route of the Rollout: it has the route's name, or that and a number, and sends
// requests to the canary alone or mirrors them to it.
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
