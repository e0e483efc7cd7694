package gatewayapi

import (
	"slices"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter"
)

// Wanted is what an owner wants of one route.
type Wanted struct {
	// Weights are those of SetWeight; nil leaves the weights as they are.
	Weights *Weights
	// Exactly are the header and mirror routes to have, whatever the owner's entry says: it
	// may have been removed by another writer. Nil means those of the entry.
	Exactly *Managed
	// Calls set and remove header and mirror routes, one after the other.
	Calls []RouteCall
	// PutBack sets what the passed steps have set and the entry does not have, and removes what
	// they have removed, before Calls.
	PutBack bool
}

// RouteCall is a call of Argo Rollouts about header and mirror routes.
type RouteCall = trafficrouter.RouteCall

// takes tells whether the header or mirror route of a call can be on routes of a kind.
func (k Kind) takes(call RouteCall) bool {
	return call.Header != nil && k.TakesHeaderRoutes() || call.Mirror != nil && k == HTTPRoute
}

// sortOf names the sort of route that a call is about for a message.
func sortOf(call RouteCall) string {
	if call.Mirror != nil {
		return "mirror"
	}
	return "header"
}

// callsOf are the header and mirror routes that steps set or remove; the last step of a name
// counts.
func callsOf(steps []v1alpha1.CanaryStep) []RouteCall {
	var calls []RouteCall
	for _, step := range steps {
		call := RouteCall{Header: step.SetHeaderRoute, Mirror: step.SetMirrorRoute}
		if call.Name() != "" {
			calls = slices.DeleteFunc(calls, func(other RouteCall) bool { return other.Name() == call.Name() })
			calls = append(calls, call)
		}
	}
	return calls
}

// Managed are the header and mirror routes that an owner has on a route. The zero
// value is none.
type Managed struct{ routes []managedRoute }

// managed are the header and mirror routes of the draft.
func (d *draft) managed() Managed {
	var m Managed
	for _, route := range d.own.Routes {
		route.Rules = nil
		m.routes = append(m.routes, route)
	}
	return m
}

// Apply decides what a route should be for one owner. The route is as wanted exactly if
// nothing would change.
//
// Weights above rest can fail, with a ForeignError for another owner's rule, and then
// nothing is to be written; so can calls without weights. At rest it fails only if the
// object is no route of a known kind. With weights, a header or mirror route that cannot
// be set is a warning: the traffic does not depend on it.
//
// Rules that are not to be split any more are restored. The rules of header and mirror
// routes follow the rules that they are made from, and one that another writer has removed
// is made again.
func Apply(route *unstructured.Unstructured, ro Rollout, wanted Wanted) (Decision, error) {
	d, err := newDraft(route, ro)
	if err != nil {
		return Decision{}, err
	}
	if wanted.Weights == nil {
		err = d.applyCalls(wanted)
	} else {
		err = d.applyWeights(wanted)
	}
	if err != nil {
		return Decision{}, err
	}
	return d.finish(), nil
}

// applyCalls sets and removes header and mirror routes.
func (d *draft) applyCalls(w Wanted) error {
	set, err := d.routesToSet(w)
	if err != nil {
		return err
	}
	if len(set) > 0 {
		if _, err := d.toSplit(); err != nil {
			return err
		}
	}
	for _, route := range set {
		d.putRoute(route)
	}
	if err := d.renderManaged(); err != nil {
		if len(set) > 0 {
			return err
		}
		d.warn("header and mirror routes stay as they are: %v", err)
	}
	return nil
}

// applyWeights splits the traffic; header and mirror routes come second.
func (d *draft) applyWeights(w Wanted) error {
	set, _ := d.routesToSet(w)
	if err := d.split(*w.Weights); err != nil {
		return err
	}
	if err := d.renderManaged(); err != nil {
		if !w.Weights.AtRest() {
			return err
		}
		d.warn("header and mirror routes stay as they are: %v", err)
	}
	for _, route := range set {
		before := d.own.Routes
		d.putRoute(route)
		if err := d.renderManaged(); err != nil {
			d.own.Routes = before
			d.warnWithout(err)
		}
	}
	return nil
}

// routesToSet removes what the calls remove, and returns the header and mirror routes that
// they set. With weights, these are only those that the entry does not have as they are to
// be; one that no route can express is a warning.
func (d *draft) routesToSet(w Wanted) (set []managedRoute, err error) {
	if w.Exactly != nil {
		d.own.Routes = slices.Clone(w.Exactly.routes)
	}
	calls := w.Calls
	if w.PutBack {
		due := func(call RouteCall) bool {
			later := slices.ContainsFunc(calls, func(other RouteCall) bool { return other.Name() == call.Name() })
			return !later && (call.Removes() || !d.hasRoute(call.Name()))
		}
		calls = slices.Concat(filter(callsOf(d.ro.Passed), due), calls)
	}
	for _, call := range calls {
		set = slices.DeleteFunc(set, func(route managedRoute) bool { return call.RemoveAll || route.Name == call.Name() })
		if call.Removes() {
			d.removeRoutes(call)
			continue
		}
		if !d.ro.UseHeaderRoutes || w.Weights != nil && !d.kind.takes(call) {
			continue
		}
		route, err := d.routeOf(call)
		switch {
		case err == nil && (w.Weights == nil || !d.hasEqual(route)):
			set = append(set, route)
			d.announced = append(d.announced, route.Name)
		case err != nil && w.Weights == nil:
			return nil, err
		case err != nil:
			d.warnWithout(err)
		}
	}
	return set, nil
}
