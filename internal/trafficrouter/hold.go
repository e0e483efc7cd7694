package trafficrouter

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutspec"
)

// hold handles a call that asks for something impossible. If nothing of the Rollout is in
// place, that is an error. Otherwise the objects stay as they are, and the controller gets
// no error: an error would keep it from the analysis, and the analysis from the abort.
//
// With dynamicStableScale the controller scales stable down as the weight goes up, so a
// higher weight than it has set already is an error: stable would be too small for the
// split that stays. The way back to stable has to go on nevertheless, also with nothing in
// place: the controller scales stable up only once the weight is set.
func (r *Router[T, S]) hold(ctx context.Context, c *call[S], problem error) error {
	if !goesBack(c.Rollout) {
		if _, ok := r.inPlace(ctx, c); !ok || rolloutspec.ScalesStableDown(c.Rollout, c.weight) {
			if c.Weights == nil { // the controller writes Events about the errors of SetWeight alone
				c.Warn(ReasonError, "error: "+problem.Error(), problem.Error())
			}
			return problem
		}
	}
	c.held = true
	c.Warn(ReasonError, problem.Error(), fmt.Sprintf("%v; %s stays as it is until this is corrected or the Rollout is aborted", problem, r.Request.Kept))
	r.keepHeld(c)
	return nil
}

// holdRefused handles a weight above 0 whose write has failed. It holds what the API server
// refuses, and would refuse again, if the canary gets no more than the controller then
// believes, or on the way back to stable. Any other failure is the call's error: after a
// lower weight the controller would take away pods that have traffic.
func (r *Router[T, S]) holdRefused(ctx context.Context, c *call[S], all []decision[T, S], failure error) error {
	most, _ := r.inPlace(ctx, c) // also on objects that the Rollout does not name any more
	for _, d := range all {
		canary, _ := r.backend.InPlace(d.Object, c.Rollout)
		most = max(most, canary)
	}
	if !isRefusal(failure) || !goesBack(c.Rollout) && c.weight < most {
		return failure
	}
	return r.hold(ctx, c, failure)
}

// isRefusal tells whether the API server has refused each of the joined requests, which it
// does again until a person changes something.
func isRefusal(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			if one != nil && !isRefusal(one) {
				return false
			}
		}
		return true
	}
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) ||
		// A webhook refuses with a code of its own choice.
		strings.Contains(err.Error(), "admission webhook") && strings.Contains(err.Error(), "denied the request")
}

// inPlace returns the highest weight that an object gives the canary of a Rollout now; ok
// is false if nothing of the Rollout is on an object. What cannot be known is taken from the
// weights that the controller has set.
func (r *Router[T, S]) inPlace(ctx context.Context, c *call[S]) (canary int32, ok bool) {
	others, known, err := r.having(ctx, c)
	found := r.find(ctx, c)
	all := slices.Concat(others, found.targets)
	for _, t := range append(all, r.keptTargets(ctx, c, all)...) {
		weight, has := r.backend.InPlace(t.Object, c.Rollout)
		canary, ok = max(canary, weight), ok || has
	}
	known = known && err == nil || !c.Unconfigured && found.unread == nil
	if !ok && !known && rolloutspec.WeightSet(c.Rollout) {
		return c.Rollout.Status.Canary.Weights.Canary.Weight, true
	}
	return canary, ok
}
