package trafficrouter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
)

// decided is what a Rollout's objects have after its last SetWeight: the plan, and the
// settings of each object with which Decide gives the same again. call is the last call:
// while a Rollout is held, it asks for other weights than the plan.
type decided[S any] struct {
	plan     Plan
	call     weightCall
	settings map[Ref]S
}

// keep has the decisions of a call put back when something else changes an object that has
// something of the Rollout. With self-healing off, nothing is put back.
func (r *Router[T, S]) keep(c *call[S], all []decision[T, S]) {
	if c.Weights == nil {
		r.keepRoutes(c, all)
		return
	}
	d := decided[S]{
		plan:     Plan{Rollout: slim(c.Rollout), Weights: c.Weights, Unconfigured: c.Unconfigured},
		call:     weightCallOf(c.Rollout, c.weight, c.additional),
		settings: map[Ref]S{},
	}
	var refs []Ref
	for _, of := range all {
		if !r.hasOwn(of.is.Object, c.Name()) {
			continue
		}
		refs = append(refs, of.Ref)
		d.settings[of.Ref] = of.is.Again
		if !c.Unconfigured && r.SelfHeal {
			r.orphans.Owned(markOf(of.Ref, c.Name(), of.is.Object.GetLabels()), c.Rollout)
		}
	}
	if !r.SelfHeal || len(refs) == 0 {
		r.healer.Forget(c.Name())
		return
	}
	r.healer.Keep(c.Name(), d, refs...)
}

// keepRoutes has header and mirror routes put back as a call has set or removed them.
func (r *Router[T, S]) keepRoutes(c *call[S], all []decision[T, S]) {
	last, refs, ok := r.healer.Kept(c.Name())
	if !ok {
		return
	}
	last.settings = maps.Clone(last.settings)
	for _, d := range all {
		if _, ok := last.settings[d.Ref]; ok {
			last.settings[d.Ref] = d.is.Again
		}
	}
	r.healer.Keep(c.Name(), last, refs...)
}

// keepHeld has the last decision still put back, for a Rollout that is held.
func (r *Router[T, S]) keepHeld(c *call[S]) {
	if last, refs, ok := r.healer.Kept(c.Name()); ok {
		last.call = weightCallOf(c.Rollout, c.weight, c.additional)
		r.healer.Keep(c.Name(), last, refs...)
	}
}

// hasOwn tells whether an object has something that this plugin has written for a Rollout.
func (r *Router[T, S]) hasOwn(object T, rollout types.NamespacedName) bool {
	return slices.ContainsFunc(r.backend.Owners(object), func(o Owner) bool {
		return o.Rollout == rollout && (o.Plugin == "" || o.Plugin == r.PluginName)
	})
}

// slim returns a copy of what a decision needs to know of a Rollout.
func slim(ro *v1alpha1.Rollout) *v1alpha1.Rollout {
	of, status := v1alpha1.RolloutStrategy{}, ro.Status
	if c := ro.Spec.Strategy.Canary; c != nil {
		of.Canary = &v1alpha1.CanaryStrategy{
			StableService: c.StableService, CanaryService: c.CanaryService, PingPong: c.PingPong,
			TrafficRouting: c.TrafficRouting, Steps: c.Steps,
		}
	}
	return (&v1alpha1.Rollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: ro.Namespace, Name: ro.Name, UID: ro.UID},
		Spec:       v1alpha1.RolloutSpec{Strategy: of},
		Status: v1alpha1.RolloutStatus{
			Abort: status.Abort, PromoteFull: status.PromoteFull, CurrentStepIndex: status.CurrentStepIndex,
			CurrentPodHash: status.CurrentPodHash, StableRS: status.StableRS,
			Canary: v1alpha1.CanaryStatus{StablePingPong: status.Canary.StablePingPong},
		},
	}).DeepCopy()
}

// repair puts back one object for a Rollout, if the controller would still ask for that.
func (r *Router[T, S]) repair(ctx context.Context, rollout types.NamespacedName, ref Ref, d decided[S]) Outcome {
	var none T
	watched, ok := r.store.Watched(ref)
	switch {
	case !ok: // no watch now: a change in the meantime brings no event later
		return Failed
	case watched == none:
		return Unneeded
	}
	target := Target[T, S]{ref, watched, d.settings[ref]}
	if again, err := r.backend.Decide(ctx, &d.plan, target); err == nil && !again.Changed {
		r.verifyAtRest(ctx, d.plan, target)
		return Unneeded
	}
	outcome, err := r.putBack(ctx, rollout, ref, d)
	if err != nil {
		r.Logger.Warn("a changed "+r.noun()+" is not put back yet", "rollout", rollout.String(), r.LogField, r.logged(ref), "reason", err)
	}
	return outcome
}

// verifyAtRest writes Events about what the data plane says of an object at rest. The
// controller does not ask again for a weight that is verified, which one at rest is at once.
func (r *Router[T, S]) verifyAtRest(ctx context.Context, p Plan, target Target[T, S]) {
	if !p.AtRest() {
		return
	}
	p.warn = func(reason, topic, message string) {
		r.events.Warn(rolloutsplugin.RolloutReference(p.Rollout), reason, topic, message)
	}
	_ = r.backend.Verify(ctx, &p, []Target[T, S]{target})
}

// putBack reads the object before the Rollout, and writes on condition that the object did
// not change: if the controller or another writer changes it after the read, the write
// fails.
func (r *Router[T, S]) putBack(ctx context.Context, rollout types.NamespacedName, ref Ref, d decided[S]) (Outcome, error) {
	fresh, err := r.store.Read(ctx, ref)
	if IsMissing(err) {
		return Unneeded, nil
	}
	if err != nil {
		return Failed, err
	}
	again, err := r.decide(ctx, &d.plan, Target[T, S]{ref, fresh, d.settings[ref]})
	if foreign := (*ForeignError)(nil); errors.As(err, &foreign) && foreign.Unread == nil {
		return Unneeded, r.sayUnfit(ctx, rollout, fresh, d, err) // the owner's release is a change, too
	}
	if err != nil {
		return Failed, errors.Join(err, r.sayUnfit(ctx, rollout, fresh, d, err))
	}
	if !again.Changed {
		return Unneeded, nil
	}
	by := r.backend.ChangedBy(fresh, again.Object)
	if by.Instance {
		r.Logger.Info("another instance of this plugin has changed a "+r.noun()+": left as it is", "rollout", rollout.String(), r.LogField, r.logged(ref))
		return Unneeded, nil
	}
	ro, outcome, err := r.healer.StillAsks(ctx, r.whole, rollout, d.call)
	if ro == nil {
		return outcome, err
	}
	if _, err := r.store.Write(ctx, fresh, again.Object); err != nil {
		return Failed, err
	}
	r.Logger.Info(r.noun()+" put back", append(changes(&d.plan, again), "rollout", rollout.String(), r.LogField, r.logged(ref), "changedBy", by.Manager)...)
	r.events.Warn(rolloutsplugin.RolloutReference(ro), r.Reasons.Restored, ref.String()+" "+by.Manager,
		fmt.Sprintf("%s; %s is as this canary needs it again (%s): %s; to end the canary, abort the Rollout",
			by.Text, ref, cmp.Or(again.To, fmt.Sprintf("stable %d, canary %d", d.plan.Weights.Stable, d.plan.Weights.Canary)), r.LeaveAlone))
	return Repaired, nil
}

// sayUnfit writes an Event on a Rollout when another writer has changed an object so that it
// cannot be put back. The controller would report that too, but it may not look at the
// Rollout for a quarter of an hour.
func (r *Router[T, S]) sayUnfit(ctx context.Context, rollout types.NamespacedName, now T, d decided[S], problem error) error {
	var unknown T
	ro, _, err := r.healer.StillAsks(ctx, r.whole, rollout, d.call)
	if ro != nil {
		r.events.Warn(rolloutsplugin.RolloutReference(ro), r.Reasons.Restored, problem.Error(),
			fmt.Sprintf("%s, which cannot be made what this canary needs (stable %d, canary %d): %v",
				r.backend.ChangedBy(now, unknown).Text, d.plan.Weights.Stable, d.plan.Weights.Canary, problem))
	}
	return err
}
