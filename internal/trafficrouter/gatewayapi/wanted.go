package gatewayapi

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Wanted is all that a Rollout wants of one route: the weights of its last SetWeight,
// and the header and mirror routes of the last decision. It is what self-healing has
// to keep.
type Wanted struct {
	Weights Weights
	Managed Managed
}

// Managed are the header and mirror routes that a Rollout has on a route. The zero
// value is none.
type Managed struct{ routes []managedRoute }

// Names are the names of the routes, highest precedence first.
func (m Managed) Names() []string {
	var names []string
	for _, route := range m.routes {
		names = append(names, route.Name)
	}
	return names
}

// without returns the routes for whose name removed is false.
func (m Managed) without(removed func(name string) bool) Managed {
	return Managed{slices.DeleteFunc(slices.Clone(m.routes), func(route managedRoute) bool { return removed(route.Name) })}
}

// managed are the header and mirror routes of the draft.
func (d *draft) managed() Managed {
	var m Managed
	for _, route := range d.own.Routes {
		route.Rules = nil
		m.routes = append(m.routes, route)
	}
	return m
}

// Apply decides what a route should be for all that a Rollout wants of it, whatever
// another writer has done to it, our annotation included. The outcome is that of the
// calls that have led to wanted, in any order. If nothing changes, the route is as
// decided. It fails as SetWeight does.
func Apply(route *unstructured.Unstructured, ro Rollout, wanted Wanted) (Decision, error) {
	d, err := newDraft(route, ro)
	if err != nil {
		return Decision{}, err
	}
	d.own.Routes = slices.Clone(wanted.Managed.routes)
	for _, managed := range wanted.Managed.routes {
		d.dropUnrecordedRules(managed.Name)
	}
	if err := d.setWeight(wanted.Weights); err != nil {
		return Decision{}, err
	}
	return d.finish(), nil
}
