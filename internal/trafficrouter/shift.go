package trafficrouter

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutspec"
)

// shift carries out a SetWeight: it decides whether the call fails, is held or goes on, and
// has what it has written put back when something else changes it.
func (r *Router[T, S]) shift(ctx context.Context, c *call[S]) error {
	if c.problem != nil {
		if !c.AtRest() {
			return r.hold(ctx, c, c.problem)
		}
		c.Warn(ReasonError, c.problem.Error(), fmt.Sprintf("%v; all requests go to stable", c.problem))
	}
	if err := r.checkSteps(ctx, c); err != nil {
		return err
	}
	found := r.find(ctx, c)
	if found.missing != nil && c.weight == 0 && !c.AtRest() {
		*c.Weights = Weights{}
	}
	switch {
	case c.weight > 0 && found.unread != nil && goesBack(c.Rollout):
		return r.holdRefused(ctx, c, nil, found.unread)
	case c.weight > 0 && found.unread != nil:
		return found.unread
	case !c.AtRest() && found.missing != nil:
		return r.hold(ctx, c, found.missing)
	case found.missing != nil && (c.Rollout.Status.CurrentPodHash != c.Rollout.Status.StableRS || rolloutspec.UsesPingPong(c.Rollout)):
		c.Warn(ReasonError, found.missing.Error(), fmt.Sprintf("%v; there is nothing to take traffic off", found.missing))
	}
	all, undecided := r.decideAll(ctx, c, found.targets, r.decide)
	if undecided != nil && c.weight == 0 && !c.AtRest() {
		c.Warn(ReasonError, undecided.Error(), fmt.Sprintf("%v; all requests go to stable", undecided))
		*c.Weights = Weights{}
		all, undecided = r.decideAll(ctx, c, found.targets, r.decide)
	}
	if undecided != nil && !c.AtRest() {
		return r.hold(ctx, c, undecided)
	}
	kept := r.keptTargets(ctx, c, found.targets)
	err := errors.Join(found.unread, undecided, r.writeAll(ctx, c, all, r.decide))
	r.keep(c, all)
	if c.weight > 0 && err != nil {
		return r.holdRefused(ctx, c, all, err)
	}
	r.releaseOthers(ctx, c, found.targets, kept)
	return err
}

// checkSteps returns an error for a canary with a step that the router cannot carry out,
// before the canary gets any traffic. Once it has some, it only warns: an error would keep
// the controller from taking the traffic back.
func (r *Router[T, S]) checkSteps(ctx context.Context, c *call[S]) error {
	err := c.config.Unsupported
	if err == nil || c.AtRest() || leavesSteps(c.Rollout) {
		return nil
	}
	if canary, _ := r.inPlace(ctx, c); canary == 0 {
		return err
	}
	c.Warn(ReasonError, err.Error(), err.Error())
	return nil
}

// releaseOthers releases the objects that have something of the Rollout, among them those
// that were kept for it, and that it does not name (any more). What fails is a warning.
func (r *Router[T, S]) releaseOthers(ctx context.Context, c *call[S], named, kept []Target[T, S]) {
	if c.Unconfigured {
		return // all objects that have something of the Rollout are among named
	}
	having, _, err := r.having(ctx, c)
	var others []Target[T, S]
	for _, t := range append(having, kept...) {
		if !slices.ContainsFunc(named, func(n Target[T, S]) bool { return n.Ref == t.Ref }) {
			others = addTarget(others, t)
		}
	}
	all, undecided := r.decideAll(ctx, c, others, r.release)
	if err := errors.Join(err, undecided, r.writeAll(ctx, c, all, r.release)); err != nil {
		c.Warn(ReasonError, err.Error(), fmt.Sprintf("what the Rollout does not name (any more) keeps what it has of it, and is tried again: %v", err))
	}
}
