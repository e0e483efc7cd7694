package trafficrouter

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	plugin "github.com/argoproj/argo-rollouts/utils/plugin/types"
)

// routeCall answers a call for header and mirror routes. One that removes returns no error:
// an error would keep the controller from setting the weight, which may be the way back to
// stable. What cannot be removed is done by the next SetWeight, with the weight.
func (r *Router[T, S]) routeCall(name string, ro *v1alpha1.Rollout, asked RouteCall) plugin.RpcError {
	c := &call[S]{name: name, Plan: Plan{Rollout: ro}}
	if weights := ro.Status.Canary.Weights; weights != nil {
		c.weight, c.additional = weights.Canary.Weight, weights.Additional
	}
	if !asked.Removes() {
		if leavesSteps(ro) {
			return plugin.RpcError{} // the controller asks for the route of the step all the same
		}
		c.RouteCalls = []RouteCall{asked}
		return r.serve(c, func(ctx context.Context, c *call[S]) error { return r.setRoute(ctx, c, asked) })
	}
	r.memories.of(ro).add(ro, asked) // also where the lock is not to be had
	if failed := r.serve(c, r.removeRoutes); failed.HasError() {
		r.Logger.Warn("header and mirror routes are not removed yet", "rollout", c.Name().String(), "reason", failed.Error())
	}
	return plugin.RpcError{}
}

// setRoute sets a header or mirror route. The controller asks for that before it sets the
// weight: an error would keep the weight where it is. So a Rollout that cannot have the
// route, and has something in place, goes on with an Event.
func (r *Router[T, S]) setRoute(ctx context.Context, c *call[S], asked RouteCall) error {
	if c.configError != nil {
		return r.hold(ctx, c, c.configError)
	}
	found := r.find(ctx, c)
	if found.unread != nil {
		return found.unread
	}
	taking, err := r.backend.Takes(found.targets, asked)
	if err = errors.Join(found.missing, err); err != nil {
		return r.hold(ctx, c, fmt.Errorf("%s: %w", asked, err))
	}
	all, err := r.decideAll(ctx, c, taking, r.decide)
	if err != nil {
		return r.hold(ctx, c, err)
	}
	err = r.writeAll(ctx, c, all, r.decide)
	r.keep(c, all)
	if err != nil && isRefusal(err) {
		return r.hold(ctx, c, fmt.Errorf("%s: %w", asked, err))
	}
	return err
}

// removeRoutes removes header and mirror routes. An object that is missing needs none
// removed.
func (r *Router[T, S]) removeRoutes(ctx context.Context, c *call[S]) error {
	found := r.find(ctx, c)
	all, undecided := r.decideAll(ctx, c, found.targets, r.decide)
	err := errors.Join(found.unread, undecided, r.writeAll(ctx, c, all, r.decide))
	r.keep(c, all)
	changed := slices.ContainsFunc(all, func(d decision[T, S]) bool { return d.is.Changed })
	if changed && c.name == removeManagedRoutes && stepsCount(c.Rollout) {
		c.Warn(r.Reasons.Decision, "removed", "Argo Rollouts has removed the header and mirror routes of this canary, as it does while no pod of the canary is available; those that passed steps have set come back with the first weight after that")
	}
	return err
}
