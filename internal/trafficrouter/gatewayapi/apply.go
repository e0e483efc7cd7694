package gatewayapi

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8stypes "k8s.io/apimachinery/pkg/types"
)

// decide makes one route's decision.
type decide func(target) (Decision, error)

// decided is a route with the decision on it.
type decided struct {
	target
	decision Decision
}

// decideAll decides on all routes before the first is written.
func (r *Router) decideAll(ctx context.Context, targets []target, decide decide) (all []decided, err error) {
	var failures []error
	for _, t := range targets {
		d, err := r.decideOne(ctx, t, decide)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		all = append(all, decided{t, d})
	}
	return all, errors.Join(failures...)
}

// decideOne decides on one route. If another writer has removed the Rollout's entry from
// the route, the Rollout's header and mirror routes are put back first. If a rule belongs to
// a Rollout that is gone, or that does not use the route any more, the decision also takes
// off what that Rollout has left.
func (r *Router) decideOne(ctx context.Context, t target, decide decide) (Decision, error) {
	given := t.route
	t.route = r.withManaged(t)
	for {
		d, err := decide(t)
		var foreign *ForeignError
		if !errors.As(err, &foreign) {
			if err == nil && t.route != given {
				d.Changed = !reflect.DeepEqual(given.Object, d.Route.Object)
			}
			return d, err
		}
		o, readErr := r.ownership(ctx, rolloutNamed(foreign.Owner), t.route)
		if o.owns {
			return d, errors.Join(err, readErr)
		}
		released, releaseErr := Release(t.route, rolloutNamed(foreign.Owner), o.stable)
		if releaseErr != nil || !released.Changed {
			return d, err
		}
		r.logger.Info("what a Rollout that does not use the route any more has left is taken off", "rollout", foreign.Owner, "route", t.ref.String())
		t.route = released.Route
	}
}

// rolloutNamed reads the name of a Rollout in an annotation: namespace/name.
func rolloutNamed(key string) k8stypes.NamespacedName {
	namespace, name, _ := strings.Cut(key, "/")
	return k8stypes.NamespacedName{Namespace: namespace, Name: name}
}

// writeAll writes the decisions. A decision that had to be made again replaces the one in
// all. The error names the routes that were not written.
func (r *Router) writeAll(ctx context.Context, p plan, all []decided, decide decide) error {
	var failures []error
	for i := range all {
		ctx, cancel := part(ctx, len(all) > 1)
		decision, err := r.write(ctx, p, all[i], decide)
		cancel()
		all[i].decision = decision
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// write writes the decision on a route. On a conflict the route is read and decided on
// again. A route that is already as decided costs no request. It returns the last decision.
func (r *Router) write(ctx context.Context, p plan, d decided, decide decide) (Decision, error) {
	started := time.Now()
	for attempt := 1; ; attempt++ {
		for _, warning := range d.decision.Warnings {
			r.warn(p, reasonRoute, warning, warning)
		}
		if !d.decision.Changed {
			return d.decision, nil
		}
		p.notes.doNotRemember()
		written, err := r.routes.Write(ctx, d.route, d.decision.Route)
		switch {
		case err == nil:
			r.reports.wrote(d.ref, written)
			if r.mirroring.learn(written, d.decision.Route) {
				return d.decision, r.undo(ctx, d, written, decide)
			}
			said := []any{"rollout", nameOf(p.ro).String(), "route", d.ref.String(), "took", time.Since(started).Round(time.Microsecond).String()}
			if !p.onlyRoutes {
				said = append(said, "stable", p.weights.Stable, "canary", p.weights.Canary)
			}
			r.logger.Info("route changed", said...)
			return d.decision, nil
		case isMissing(err) && p.atRest():
			return d.decision, nil // nothing is left to restore
		case apierrors.IsConflict(err) && attempt < attempts:
			if d.route, err = r.routes.Read(ctx, string(d.ref.kind), d.ref.Namespace, d.ref.Name); err != nil {
				return d.decision, requestError("get", d.ref.String(), d.ref.kind, r.timeout, err)
			}
			d.route.SetManagedFields(nil)
			again, err := r.decideOne(ctx, d.target, decide)
			if err != nil {
				return d.decision, err
			}
			d.decision = again
		default:
			return d.decision, requestError("patch", d.ref.String(), d.ref.kind, r.timeout, err)
		}
	}
}

// undo removes a mirror that the API server has stored without its percentage, so that it
// mirrors all requests, and returns why the mirror is not possible.
func (r *Router) undo(ctx context.Context, d decided, written *unstructured.Unstructured, decide decide) error {
	before := d.route.DeepCopy()
	before.SetResourceVersion(written.GetResourceVersion())
	d.rollout.MirrorPercent = r.mirroring.knowsPercent()
	_, reason := r.decideOne(ctx, d.target, decide)
	undone, err := r.routes.Write(ctx, written, before)
	if err == nil {
		r.reports.wrote(d.ref, undone)
	}
	return errors.Join(reason, err)
}
