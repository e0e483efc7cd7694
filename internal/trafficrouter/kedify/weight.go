package kedify

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutspec"
	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
)

// reasonError is the reason of Argo Rollouts' own Event for an error of
// SetWeight; it is where users look.
const reasonError = "TrafficRoutingError"

// setWeight carries out a plan, and registers the HTTPScaledObjects that carry its
// split then for self-healing.
func (r *Router) setWeight(ctx context.Context, p plan) error {
	if p.problem != nil {
		if !p.atRest {
			return r.holdSplit(ctx, p)
		}
		r.warn(p, fmt.Sprintf("%v; all requests go to stable", p.problem))
	}
	if err := r.checkSteps(ctx, p); err != nil {
		return err
	}
	var carrying []string
	var failures, lasting []error
	for _, name := range p.names {
		err := r.apply(ctx, p, name)
		switch {
		case err == nil:
			carrying = append(carrying, name)
		case isLasting(p, err):
			lasting = append(lasting, err)
		default:
			failures = append(failures, err)
		}
	}
	unnamed, err := r.leaveUnnamed(ctx, p)
	failures = append(failures, err, r.lastingFailures(ctx, p, lasting))
	carrying = append(carrying, unnamed...)
	if p.configError != nil {
		// Objects without annotations are not found by their owner.
		carrying = append(carrying, r.keptFor(p.ro)...)
		slices.Sort(carrying)
		carrying = slices.Compact(carrying)
	}
	r.keep(p, carrying)
	return errors.Join(failures...)
}

// isLasting tells whether a failure stays until a person changes something. At
// rest another Rollout's split is left alone even if that Rollout cannot be read.
func isLasting(p plan, err error) bool {
	var missing *missingError
	var foreign *foreignError
	return errors.As(err, &missing) || errors.As(err, &foreign) && (p.atRest || foreign.unread == nil)
}

// lastingFailures returns the error for HTTPScaledObjects that are missing or carry
// another Rollout's split. Above weight 0 it returns one while the canary has no
// traffic. While the canary has some, on another object, it returns none: an error
// would keep the controller from the analysis, and the analysis from the abort. At rest
// there is nothing to take off; a first deployment or an abort must not fail because of
// these objects.
func (r *Router) lastingFailures(ctx context.Context, p plan, lasting []error) error {
	err := errors.Join(lasting...)
	switch {
	case err == nil:
		return nil
	case !p.atRest && !r.canaryHasShare(ctx, p.ro):
		return err
	case !p.atRest || p.pingPong():
		r.warn(p, err.Error())
	}
	return nil
}

// holdSplit handles a Rollout whose spec has a problem, above weight 0. If the Rollout
// has no split, the problem is an error. If it has one, the split stays as it is and
// the controller gets no error: one would keep it from the analysis, and the analysis
// from the abort.
//
// With dynamicStableScale the controller scales stable down as the weight goes up, so a
// higher weight than the last one set is an error: stable would be too small for the
// split that stays. A lower weight, towards stable, is always accepted, and so is an
// abort.
func (r *Router) holdSplit(ctx context.Context, p plan) error {
	if rolloutspec.ScalesStableDown(p.ro, p.weight) || !r.hasSplit(ctx, p.ro) {
		return p.problem
	}
	r.warn(p, fmt.Sprintf("%v; the split stays as it is until this is corrected or the Rollout is aborted", p.problem))
	r.keepHeld(p)
	return nil
}

// warn writes an Event on the plan's Rollout: one for each step, since the
// controller's own Event says then that the step's weight was set.
func (r *Router) warn(p plan, message string) {
	step := int32(0)
	if p.ro.Status.CurrentStepIndex != nil {
		step = *p.ro.Status.CurrentStepIndex
	}
	r.events.Warn(rolloutsplugin.RolloutReference(p.ro), reasonError, fmt.Sprintf("step %d: %s", step, message),
		fmt.Sprintf("SetWeight(%d) for Rollout %s: %s", p.weight, nameOf(p.ro), message))
}

// verify returns why the cluster is not as the plan asks.
func (r *Router) verify(ctx context.Context, p plan) error {
	if p.problem != nil && (!p.atRest || p.dropsExperiments) {
		return p.problem
	}
	for _, name := range p.names {
		object, err := r.objects.Get(ctx, p.ro.Namespace, name)
		// There is no split of this Rollout to take off; SetWeight has checked more
		// closely.
		if p.split == nil && (apierrors.IsNotFound(err) || err == nil && presentIn(object.Annotations).ownerOtherThan(p.ro.Name) != "") {
			continue
		}
		if err != nil {
			return err
		}
		if err := r.carries(ctx, p, name, presentIn(object.Annotations)); err != nil {
			return err
		}
	}
	if p.configError == nil {
		return nil
	}
	objects, ok, err := r.objects.WithAnnotation(ctx, p.ro.Namespace, p.ro.Name, syncTimeout)
	if err != nil || !ok || len(objects) == 0 && p.pingPong() {
		return p.configError
	}
	for _, object := range objects {
		if err := r.carries(ctx, p, object.Name, presentIn(object.Annotations)); err != nil {
			return err
		}
	}
	return nil
}

// carries returns why an HTTPScaledObject is not as the plan asks.
func (r *Router) carries(ctx context.Context, p plan, name string, now present) error {
	if err := r.mayChange(ctx, p.ro.Namespace, p.ro.Name, name, now); err != nil {
		return err
	}
	if decide(now, p.ro.Name, p.split) != nil {
		return fmt.Errorf("HTTPScaledObject %s carries %s", name, now)
	}
	return nil
}
