package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8stypes "k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
	"github.com/kedify/argo-rollouts-plugin/internal/selfheal"
)

// decision is what a Rollout's routes carry after its last SetWeight.
type decision struct {
	weights Weights
	// call is the last call. While a Rollout is held, it asks for other weights than these.
	call   selfheal.Call
	routes map[routeRef]keptRoute
}

// keptRoute is what one route carries, and the Rollout as it concerned the route then.
type keptRoute struct {
	rollout Rollout
	wanted  Wanted
}

// keep has the decisions put back when something else changes a route, if the route
// differs from what its user has: at rest it can differ by header and mirror routes, and
// with pingPong. With self-healing off, nothing is put back.
func (r *Router) keep(p plan, all []decided) {
	d := decision{p.weights, p.call, map[routeRef]keptRoute{}}
	var refs []routeRef
	for _, route := range all {
		if slices.Contains(RolloutsOn(route.decision.Route), nameOf(p.ro)) {
			refs = append(refs, route.ref)
			of := route.rollout
			of.Port = nil // it lives as long as this call
			d.routes[route.ref] = keptRoute{of, Wanted{p.weights, route.decision.Managed}}
			if p.configError == nil && r.options.SelfHeal {
				r.orphans.Owned(markOf(route.ref, stringsOf(route.decision.Route, "labels"), nameOf(p.ro)), p.ro)
			}
		}
	}
	name := nameOf(p.ro)
	if !r.options.SelfHeal || len(refs) == 0 {
		p.notes.do(func() { r.healer.Forget(name) })
		return
	}
	p.notes.do(func() { r.healer.Keep(name, d, refs...) })
}

// keepHeld has the last decision still put back, for a Rollout whose present spec asks
// for something impossible.
func (r *Router) keepHeld(p plan) {
	if last, refs, ok := r.healer.Kept(nameOf(p.ro)); ok {
		last.call = p.call
		r.healer.Keep(nameOf(p.ro), last, refs...)
	}
}

// keepManaged has the header and mirror routes put back as a call has set or removed them.
func (r *Router) keepManaged(p plan, all []decided) {
	name, managed := nameOf(p.ro), map[routeRef]Managed{}
	for _, route := range all {
		managed[route.ref] = route.decision.Managed
	}
	p.notes.do(func() {
		last, refs, ok := r.healer.Kept(name)
		if !ok {
			return
		}
		last.routes = maps.Clone(last.routes)
		for ref, managed := range managed {
			if kept, ok := last.routes[ref]; ok {
				kept.wanted.Managed = managed
				last.routes[ref] = kept
			}
		}
		r.healer.Keep(name, last, refs...)
	})
}

// withManaged returns a route with the header and mirror routes of the last decision, if
// another writer has removed the Rollout's entry. Otherwise a call that comes before the
// repair would not know of them, and its decision would replace the last one.
func (r *Router) withManaged(t target) *unstructured.Unstructured {
	name := t.rollout.NamespacedName
	last, _, _ := r.healer.Kept(name)
	kept, ok := last.routes[t.ref]
	if !ok || slices.Contains(RolloutsOn(t.route), name) {
		return t.route
	}
	if due, ok := r.unremoved.of(name); ok {
		kept.wanted.Managed = kept.wanted.Managed.without(due.covers)
	}
	if len(kept.wanted.Managed.routes) == 0 {
		return t.route
	}
	restored, err := Apply(t.route, t.rollout, kept.wanted)
	if err != nil {
		return t.route
	}
	return restored.Route
}

// repair puts back one route for a Rollout, if the controller would still ask for that.
func (r *Router) repair(ctx context.Context, rollout k8stypes.NamespacedName, ref routeRef, d decision) selfheal.Outcome {
	watched, ok := r.routes.Watched(string(ref.kind), ref.Namespace, ref.Name)
	switch {
	case !ok: // no watch now: a change in the meantime brings no event later
		return selfheal.Failed
	case watched == nil:
		return selfheal.Unneeded
	}
	kept := d.routes[ref]
	kept.rollout.Port = r.port(ctx, kept.rollout.Namespace)
	if again, err := Apply(watched, kept.rollout, kept.wanted); err == nil && !again.Changed {
		return selfheal.Unneeded
	}
	outcome, err := r.putBack(ctx, rollout, ref, d, kept)
	if err != nil {
		r.logger.Warn("a changed route is not put back yet", "rollout", rollout.String(), "route", ref.String(), "reason", err)
	}
	return outcome
}

// lostMark tells whether all that a route lacks is the in-progress label or the
// annotation.
func lostMark(route, decided *unstructured.Unstructured) bool {
	_, has := route.GetAnnotations()[Annotation]
	return reflect.DeepEqual(route.Object["spec"], decided.Object["spec"]) && (!has || !maps.Equal(route.GetLabels(), decided.GetLabels()))
}

// putBack reads the route before the Rollout, and writes on condition that the route
// did not change: if the controller or another writer changes the route after the
// read, the write fails.
func (r *Router) putBack(ctx context.Context, rollout k8stypes.NamespacedName, ref routeRef, d decision, kept keptRoute) (selfheal.Outcome, error) {
	fresh, err := r.routes.Read(ctx, string(ref.kind), ref.Namespace, ref.Name)
	if isMissing(err) {
		return selfheal.Unneeded, nil
	}
	if err != nil {
		return selfheal.Failed, err
	}
	by := lastWriterOf(fresh.GetManagedFields())
	fresh.SetManagedFields(nil)
	again, err := Apply(fresh, kept.rollout, kept.wanted)
	switch {
	case err != nil:
		return selfheal.Failed, errors.Join(err, r.sayUnfit(ctx, rollout, ref, d, by, err))
	case !again.Changed:
		return selfheal.Unneeded, nil
	case lostMark(fresh, again.Route):
		by = writer{manager: unnamed} // the rules are the plugin's, and no instance of it leaves them without label and annotation
	case by.manager == FieldManager && !r.reports.wroteLast(ref, fresh):
		r.logger.Info("another instance of this plugin has changed a route: left as it is", "rollout", rollout.String(), "route", ref.String())
		return selfheal.Unneeded, nil
	}
	ro, outcome, err := r.healer.StillAsks(ctx, r.whole, rollout, d.call)
	if ro == nil {
		return outcome, err
	}
	written, err := r.routes.Write(ctx, fresh, again.Route)
	if err != nil {
		return selfheal.Failed, err
	}
	r.reports.wrote(ref, written)
	r.logger.Info("route put back", "rollout", rollout.String(), "route", ref.String(), "changedBy", by.String())
	r.events.Warn(rolloutsplugin.RolloutReference(ro), reasonRestored, ref.String()+" "+by.manager,
		fmt.Sprintf("%s has changed %s; it is as this canary needs it again (stable %d, canary %d): have the other writer leave spec.rules alone while the route has the in-progress label; to end the canary, abort the Rollout",
			by.subject(), ref, d.weights.Stable, d.weights.Canary))
	return selfheal.Repaired, nil
}

// sayUnfit writes an Event on a Rollout when another writer has changed a route so that it
// cannot be put back. The controller would report that too, but it may not look at the
// Rollout for a quarter of an hour.
func (r *Router) sayUnfit(ctx context.Context, rollout k8stypes.NamespacedName, ref routeRef, d decision, by writer, problem error) error {
	ro, _, err := r.healer.StillAsks(ctx, r.whole, rollout, d.call)
	if ro != nil {
		r.events.Warn(rolloutsplugin.RolloutReference(ro), reasonRestored, problem.Error(),
			fmt.Sprintf("%s has changed %s, which cannot be made what this canary needs (stable %d, canary %d): %v", by.subject(), ref, d.weights.Stable, d.weights.Canary, problem))
	}
	return err
}
