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
// copies each rule that the Rollout splits, and adds the headers to the matches of
// the copy. Without a match it removes the header route, as RemoveRoute does.
//
// It fails for a kind without headers, a route with no rule to split, another
// Rollout's rule (ForeignError), a step that a route cannot express, and more rules
// or matches than a route takes. Warnings name what the header route does not cover,
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

// headerName is what the CRD accepts as the name of a header.
var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+\\-.^_`|~]{1,256}$")

const maxHeaderValue = 4096

// headerRouteOf translates a step into the terms of a route.
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
	d.putManagedRoute(managed)
	d.setting = managed.Name
	if err := d.renderManaged(); err != nil {
		return Decision{}, err
	}
	return d.finish(), nil
}

// putManagedRoute puts a header or mirror route into the Rollout's entry, in place
// of one of that name.
func (d *draft) putManagedRoute(managed managedRoute) {
	d.own.Routes = slices.DeleteFunc(slices.Clone(d.own.Routes), func(m managedRoute) bool { return m.Name == managed.Name })
	d.own.Routes = append(d.own.Routes, managed)
	d.dropUnrecordedRules(managed.Name)
}
