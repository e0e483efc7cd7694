package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutspec"
	"github.com/kedify/argo-rollouts-plugin/internal/selfheal"
)

// setWeight carries out a call, and has its decisions put back when something else
// changes a route.
//
// At weight 0 a route that cannot be read or written does not keep others from rest.
func (r *Router) setWeight(ctx context.Context, p plan) error {
	if p.problem != nil {
		if !p.atRest() {
			return r.hold(ctx, p, p.problem)
		}
		r.warn(p, reasonError, p.problem.Error(), fmt.Sprintf("%v; all requests go to stable", p.problem))
	}
	targets, missing, unread := r.named(ctx, p)
	if missing != nil && p.weight == 0 && !p.atRest() {
		p = p.withoutExperiments(missing)
	}
	switch {
	case p.weight > 0 && unread != nil:
		return unread
	case !p.atRest() && missing != nil:
		return r.hold(ctx, p, missing)
	case missing != nil && p.isActive():
		r.warn(p, reasonError, missing.Error(), fmt.Sprintf("%v; there is nothing to take traffic off", missing))
	}
	weigh := func(t target) (Decision, error) { return SetWeight(t.route, t.rollout, p.weights) }
	all, err := r.decideAll(ctx, targets, weigh)
	if err != nil && p.weight == 0 && !p.atRest() {
		p = p.withoutExperiments(err)
		r.warn(p, reasonError, err.Error(), fmt.Sprintf("%v; all requests go to stable", err))
		all, err = r.decideAll(ctx, targets, weigh)
	}
	if err != nil && !p.atRest() {
		return r.hold(ctx, p, err)
	}
	failures := []error{unread, err, r.writeAll(ctx, p, all, weigh)}
	if err := errors.Join(failures...); err != nil && !p.atRest() {
		r.keep(p, all) // do not put the decision of the previous call back over what was written
		return err
	}
	failures = append(failures, r.leaveOthers(ctx, p, targets))
	r.keep(p, all)
	return errors.Join(failures...)
}

// isActive tells whether a Rollout has a canary under way, so that a missing route is
// worth a warning. For an idle Rollout the warning would come at each reconcile.
func (p plan) isActive() bool {
	return p.ro.Status.CurrentPodHash != p.ro.Status.StableRS
}

// leaveOthers removes what the Rollout has on routes that it does not name (any more).
// If its configuration cannot be read, it may name any of them: they go to rest, too,
// because a call with an unreadable configuration gets here at weight 0 alone.
//
// A route that is not named and cannot be written does not fail the call: it is an Event.
func (r *Router) leaveOthers(ctx context.Context, p plan, named []target) error {
	others, unsearched := r.carrying(ctx, p)
	if p.configError != nil {
		others.targets = append(others.targets, r.keptFor(ctx, p)...)
	}
	left := without(named, others.targets)
	release := func(t target) (Decision, error) {
		stable := ""
		if t.rollout.PingPong {
			stable = t.rollout.Stable
		}
		return Release(t.route, t.rollout.NamespacedName, stable)
	}
	all, err := r.decideAll(ctx, left, release)
	err = errors.Join(err, r.writeAll(ctx, p, all, release))
	switch {
	case p.configError != nil && !others.known && len(left) == 0 && p.isActive():
		return errors.Join(unsearched, fmt.Errorf("the routes to take traffic off are not known: the controller may not list and watch them (or the watch has not begun), and %w", p.configError))
	case p.configError != nil:
		return err
	case err != nil:
		r.warn(p, reasonError, err.Error(), fmt.Sprintf("a route that the Rollout does not name (any more) keeps what it has of it: %v", err))
	case unsearched == nil && others.everywhere:
		r.searched.note(nameOf(p.ro), searchFor(p.ro, r.options.PluginName))
	}
	return nil
}

// without returns the targets whose route is not among named, each route once.
func without(named, targets []target) (others []target) {
	for _, t := range targets {
		same := func(other target) bool { return other.ref == t.ref }
		if !slices.ContainsFunc(named, same) && !slices.ContainsFunc(others, same) {
			others = append(others, t)
		}
	}
	return others
}

// hold handles a call that asks for something impossible. If nothing of the Rollout is
// on a route, that is an error. Otherwise the routes stay as they are, and the controller
// gets no error: an error would keep it from the analysis, and the analysis from the
// abort.
//
// With dynamicStableScale the controller scales stable down as the weight goes up, so a
// higher weight than it has set already is an error: stable would be too small for the
// split that stays. An abort has to go on nevertheless, also with nothing on a route: the
// controller scales stable up only once the weight is set.
func (r *Router) hold(ctx context.Context, p plan, problem error) error {
	if !p.ro.Status.Abort && (rolloutspec.ScalesStableDown(p.ro, p.weight) || !r.hasTraffic(ctx, p)) {
		return problem
	}
	p.notes.doNotRemember() // the problem may end without a change of a route
	r.warn(p, reasonError, problem.Error(), fmt.Sprintf("%v; the routes stay as they are until this is corrected or the Rollout is aborted", problem))
	r.keepHeld(p)
	return nil
}

// hasTraffic tells whether something of a Rollout is on a route. If that cannot be
// known, it goes by the weight that the controller has set.
func (r *Router) hasTraffic(ctx context.Context, p plan) bool {
	carrying, unsearched := r.carrying(ctx, p)
	if len(carrying.targets) > 0 {
		return true
	}
	targets, _, unread := r.named(ctx, p)
	if slices.ContainsFunc(append(targets, r.keptFor(ctx, p)...), func(t target) bool {
		return slices.Contains(RolloutsOn(t.route), nameOf(p.ro))
	}) {
		return true
	}
	known := carrying.known && unsearched == nil || p.configError == nil && unread == nil
	return !known && rolloutspec.WeightSet(p.ro)
}

// keptFor returns the routes that self-healing keeps for a Rollout.
func (r *Router) keptFor(ctx context.Context, p plan) []target {
	name := nameOf(p.ro)
	_, refs, _ := r.healer.Kept(name)
	p.notes.read(func() bool {
		_, now, _ := r.healer.Kept(name)
		return slices.Equal(now, refs)
	})
	var targets []target
	for _, ref := range refs {
		route, err := r.get(ctx, p.notes, ref, true)
		if err == nil {
			targets = append(targets, target{ref: ref, route: route, rollout: r.rollout(ctx, p, nil)})
		}
	}
	return targets
}

// manage makes the rules of a header or mirror route on each route of the Rollout
// that takes it.
//
// The controller asks for the route of the present step also when the Rollout is aborted
// or promoted in full, and before it sets the weight: an error would keep the weight
// where it is. A Rollout that has left its steps gets no route. A Rollout that cannot
// have the route, and has something on a route, goes on with an Event.
func (r *Router) manage(ctx context.Context, p plan, what string, takes func(Kind) bool, decide decide) error {
	if leavesSteps(p.ro) {
		return nil
	}
	if weights := p.ro.Status.Canary.Weights; weights != nil {
		p.weight, p.call = weights.Canary.Weight, selfheal.CallOf(p.ro, weights.Canary.Weight, weights.Additional)
	}
	if p.configError != nil {
		return r.hold(ctx, p, p.configError)
	}
	targets, missing, err := r.named(ctx, p)
	if err != nil {
		return err
	}
	if missing != nil {
		return r.hold(ctx, p, fmt.Errorf("%s: %w", what, missing))
	}
	targets = slices.DeleteFunc(targets, func(t target) bool { return !t.headers || !takes(t.ref.kind) })
	if len(targets) == 0 {
		return r.hold(ctx, p, fmt.Errorf("%s: none of the Rollout's routes takes it: set useHeaderRoutes on an HTTPRoute (for a header route, or a GRPCRoute) in its configuration, or take the step out", what))
	}
	all, err := r.decideAll(ctx, targets, decide)
	if err != nil {
		return r.hold(ctx, p, err)
	}
	err = r.writeAll(ctx, p, all, decide)
	r.keepManaged(p, all)
	if isRefusal(err) {
		return r.hold(ctx, p, fmt.Errorf("%s: %w", what, err))
	}
	return err
}

// leavesSteps tells whether a Rollout is aborted or promoted in full, so that its steps no
// longer count.
func leavesSteps(ro *v1alpha1.Rollout) bool { return ro.Status.Abort || ro.Status.PromoteFull }

// isRefusal tells whether the API server has refused a request, which it does again until a
// person changes something.
func isRefusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

// removeRoutes removes header and mirror routes from all routes that the Rollout
// names, and from those that carry something of it. A route that does not exist needs no
// removal.
func (r *Router) removeRoutes(ctx context.Context, p plan, remove decide) error {
	targets, _, unread := r.named(ctx, p)
	all, err := r.decideAll(ctx, targets, remove)
	failures := []error{unread, err, r.writeAll(ctx, p, all, remove)}
	carrying, _ := r.carrying(ctx, p)
	others := without(targets, slices.Concat(carrying.targets, r.keptFor(ctx, p)))
	more, err := r.decideAll(ctx, others, remove)
	failures = append(failures, err, r.writeAll(ctx, p, more, remove))
	r.keepManaged(p, append(all, more...))
	return errors.Join(failures...)
}
