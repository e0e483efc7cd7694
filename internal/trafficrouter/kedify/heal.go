package kedify

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8stypes "k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
	"github.com/kedify/argo-rollouts-plugin/internal/selfheal"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

// reasonRestored is the reason of the Event that names another writer.
const reasonRestored = "SplitRestored"

// decision is what a Rollout's HTTPScaledObjects carry after its last SetWeight.
type decision struct {
	split []weightedbackends.Backend
	call  selfheal.Call
}

// keep registers HTTPScaledObjects and the split that they carry after a call, so that
// the split is put back when something else changes it. Without a split, or with
// self-healing off, nothing is put back.
func (r *Router) keep(p plan, carrying []string) {
	if !r.options.SelfHeal || p.split == nil || len(carrying) == 0 {
		r.healer.Forget(nameOf(p.ro))
		return
	}
	objects := make([]k8stypes.NamespacedName, len(carrying))
	for i, name := range carrying {
		objects[i] = k8stypes.NamespacedName{Namespace: p.ro.Namespace, Name: name}
		if p.configError == nil {
			r.orphans.Owned(markOf(objects[i], p.ro.Name), p.ro)
		}
	}
	r.healer.Keep(nameOf(p.ro), decision{p.split, p.call}, objects...)
}

// keptFor returns the names of the HTTPScaledObjects whose split is put back for
// a Rollout.
func (r *Router) keptFor(ro *v1alpha1.Rollout) []string {
	_, objects, _ := r.healer.Kept(nameOf(ro))
	names := make([]string, len(objects))
	for i, object := range objects {
		names[i] = object.Name
	}
	return names
}

// keepHeld keeps the split of the call before under self-healing, for a Rollout whose
// present spec has a problem.
func (r *Router) keepHeld(p plan) {
	if last, objects, ok := r.healer.Kept(nameOf(p.ro)); ok {
		r.healer.Keep(nameOf(p.ro), decision{last.split, p.call}, objects...)
	}
}

// repair puts the split of a Rollout back on an HTTPScaledObject, if the
// controller would still ask for it.
func (r *Router) repair(ctx context.Context, rollout, object k8stypes.NamespacedName, d decision) selfheal.Outcome {
	watched, ok := r.objects.Watched(object.Namespace, object.Name)
	switch {
	case !ok: // no watch now; a change made meanwhile brings no event later
		return selfheal.Failed
	case watched == nil || decide(presentIn(watched.Annotations), rollout.Name, d.split) == nil:
		return selfheal.Unneeded
	}
	outcome, err := r.putBack(ctx, rollout, object, d)
	if err != nil {
		r.logger.Warn("a changed split is not put back yet", "rollout", rollout.String(), "httpScaledObject", object.String(), "reason", err)
	}
	return outcome
}

// putBack reads the object before the Rollout and writes on condition that the
// object did not change: when the controller, or another one, takes the split
// off between the two, the write fails.
func (r *Router) putBack(ctx context.Context, rollout, object k8stypes.NamespacedName, d decision) (selfheal.Outcome, error) {
	fresh, err := r.objects.Read(ctx, object.Namespace, object.Name)
	if apierrors.IsNotFound(err) {
		return selfheal.Unneeded, nil
	}
	if err != nil {
		return selfheal.Failed, err
	}
	now := presentIn(fresh.Annotations)
	change := decide(now, rollout.Name, d.split)
	if change == nil {
		return selfheal.Unneeded, nil
	}
	by := writersOf(fresh.ManagedFields, changedKeys(now, change))
	if by.contain(fieldManager) {
		r.logger.Info("another instance of this plugin has changed a split: left as it is", "rollout", rollout.String(), "httpScaledObject", object.String(), "split", now.String())
		return selfheal.Unneeded, nil
	}
	if err := r.mayChange(ctx, object.Namespace, rollout.Name, object.Name, now); err != nil {
		if foreign := (*foreignError)(nil); errors.As(err, &foreign) && foreign.unread == nil {
			return selfheal.Unneeded, nil
		}
		return selfheal.Failed, err
	}
	ro, outcome, err := r.healer.StillAsks(ctx, r.whole, rollout, d.call)
	if ro == nil {
		return outcome, err
	}
	if _, err := r.objects.Annotate(ctx, fresh, change); err != nil {
		return selfheal.Failed, err
	}
	r.logger.Info("split put back", "rollout", rollout.String(), "httpScaledObject", object.String(),
		"from", now.String(), "to", weightedbackends.Describe(d.split), "changedBy", by.String())
	r.events.Warn(rolloutsplugin.RolloutReference(ro), reasonRestored, object.Name+" "+by.String(),
		fmt.Sprintf("%s; HTTPScaledObject %s carries %s again: have the other writer leave these annotations alone; to take a split off, abort the Rollout",
			described(fresh, now, by), object, weightedbackends.Describe(d.split)))
	return selfheal.Repaired, nil
}

// described says how an object's split was changed, and by which field manager. A
// removal leaves no trace of its manager, so for a removal it lists all managers with
// their times.
func described(object *metav1.PartialObjectMetadata, now present, by writers) string {
	if len(by) > 0 {
		return fmt.Sprintf("field manager %s changed the split to %s", by, now)
	}
	what := "the annotation " + weightedbackends.Annotation + " was removed, or the object was made anew"
	if now.split != nil {
		what = "the annotation " + weightedbackends.OwnerAnnotation + " was removed"
	}
	managers := make([]string, len(object.ManagedFields))
	for i, entry := range object.ManagedFields {
		managers[i] = describeManager(entry)
	}
	return fmt.Sprintf("%s; the object's field managers: %s", what, strings.Join(managers, ", "))
}

// changedKeys returns the keys of the annotations whose present value differs from the
// one in the change; an absent annotation has none.
func changedKeys(now present, change map[string]*string) []string {
	var keys []string
	for key, value := range map[string]*string{weightedbackends.Annotation: now.split, weightedbackends.OwnerAnnotation: now.owner} {
		if value != nil && !equal(value, change[key]) {
			keys = append(keys, key)
		}
	}
	return keys
}
