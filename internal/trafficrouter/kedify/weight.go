package kedify

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
)

// reasonError is the reason of Argo Rollouts' own Event for an error of
// SetWeight; it is where users look.
const reasonError = "TrafficRoutingError"

func (r *Router) setWeight(ctx context.Context, p plan) error {
	if p.problem != nil {
		if !p.atRest {
			return r.holdSplit(ctx, p)
		}
		r.warn(p, fmt.Sprintf("%v; at weight 0 this holds up nothing", p.problem))
	}
	if err := r.checkSteps(ctx, p); err != nil {
		return err
	}
	var failures []error
	for _, name := range p.names {
		failures = append(failures, r.apply(ctx, p, name))
	}
	return errors.Join(append(failures, r.leaveUnnamed(ctx, p))...)
}

// holdSplit answers for a Rollout whose spec asks for what cannot be. Without a
// split of it that is an error. With one, the split stays as it is and the
// controller is told of no error: one would keep it from the analysis, and the
// analysis from the abort.
func (r *Router) holdSplit(ctx context.Context, p plan) error {
	if !r.hasSplit(ctx, p) {
		return p.problem
	}
	r.warn(p, fmt.Sprintf("%v; the split stays as it is until this is corrected or the Rollout is aborted", p.problem))
	return nil
}

// warn writes an Event about the plan's problem on its Rollout.
func (r *Router) warn(p plan, message string) {
	// Anew for each weight: the controller's own Event says that it was set.
	text := fmt.Sprintf("SetWeight(%d) for Rollout %s: %s", p.weight, nameOf(p.ro), message)
	r.events.Warn(rolloutsplugin.RolloutReference(p.ro), reasonError, text, text)
}

// verify returns why the cluster is not as the plan asks.
func (r *Router) verify(ctx context.Context, p plan) error {
	if p.problem != nil && !p.atRest {
		return p.problem
	}
	for _, name := range p.names {
		object, err := r.objects.Get(ctx, p.ro.Namespace, name)
		switch {
		// Nothing of this Rollout's to take off; SetWeight has looked closer.
		case p.split == nil && apierrors.IsNotFound(err):
			continue
		case err != nil:
			return err
		}
		owner := presentIn(object.Annotations).foreignTo(p.ro.Name)
		switch {
		case owner != "" && p.split == nil:
			continue
		case owner != "" && p.atRest:
			return fmt.Errorf("HTTPScaledObject %s carries the split of Rollout %s", name, owner)
		}
		change, err := r.change(ctx, p, object)
		if err != nil {
			return err
		}
		if change != nil {
			return fmt.Errorf("HTTPScaledObject %s carries %s", name, presentIn(object.Annotations))
		}
	}
	if p.configError == nil {
		return nil
	}
	objects, ok, err := r.objects.WithAnnotation(ctx, p.ro.Namespace, p.ro.Name, syncTimeout)
	if err != nil || !ok {
		return p.configError
	}
	for _, object := range objects {
		if decide(presentIn(object.Annotations), p.ro.Name, p.split) != nil {
			return fmt.Errorf("HTTPScaledObject %s carries %s", object.Name, presentIn(object.Annotations))
		}
	}
	return nil
}
