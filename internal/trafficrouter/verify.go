package trafficrouter

import (
	"context"
	"errors"
	"fmt"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutspec"
)

// verify returns why the cluster is not as a call asks. The maximum weight, held on the way
// back to stable, counts as set: the controller would fail the reconcile before it scales
// stable up, for ever. For a lower weight that is held it only asks again.
func (r *Router[T, S]) verify(ctx context.Context, c *call[S]) error {
	if c.held && goesBack(c.Rollout) && c.weight == rolloutspec.MaxWeight(c.Rollout) {
		return nil
	}
	if c.problem != nil && (!c.AtRest() || len(c.additional) > 0) {
		return c.problem
	}
	found := r.find(ctx, c)
	// With pingPong there is something to write at rest, too.
	needed := !c.AtRest() || rolloutspec.UsesPingPong(c.Rollout)
	switch {
	case found.unread != nil || found.missing != nil && needed:
		return errors.Join(found.unread, found.missing)
	case c.Unconfigured && len(found.targets) == 0 && needed:
		return c.configError
	}
	all, err := r.decideAll(ctx, c, found.targets, r.decide)
	if err != nil {
		return err
	}
	for _, d := range all {
		if d.is.Changed {
			return fmt.Errorf("%s is not as decided", d.Ref)
		}
	}
	return r.backend.Verify(ctx, &c.Plan, found.targets)
}
