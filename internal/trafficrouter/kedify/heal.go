package kedify

import (
	"context"
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

// decision is what the last SetWeight of a Rollout asked for.
type decision struct {
	split       []weightedbackends.Backend
	weight      int32
	fingerprint selfheal.Fingerprint
}

// keep has the plan's split put back when something else changes it.
func (r *Router) keep(p plan) {
	objects := make([]k8stypes.NamespacedName, len(p.names))
	for i, name := range p.names {
		objects[i] = k8stypes.NamespacedName{Namespace: p.ro.Namespace, Name: name}
		r.noteOwned(objects[i], ownership{p.ro.Name, p.ro.UID, p.ro.Generation})
	}
	r.healer.Keep(nameOf(p.ro), decision{p.split, p.weight, selfheal.FingerprintOf(p.ro)}, objects...)
}

// repair puts the split of a Rollout back on an HTTPScaledObject, if the
// controller would still ask for it. The object is read before the Rollout and
// written on condition that it did not change: when the controller, or another
// one, takes the split off between the two, the write fails.
func (r *Router) repair(ctx context.Context, rollout, object k8stypes.NamespacedName, d decision) selfheal.Outcome {
	watched, ok := r.objects.Watched(object.Namespace, object.Name)
	if !ok || watched == nil || decide(presentIn(watched.Annotations), rollout.Name, d.split) == nil {
		return selfheal.Unneeded
	}
	outcome, err := r.putBack(ctx, rollout, object, d)
	if err != nil {
		r.logger.Warn("a changed split is not put back yet", "rollout", rollout.String(), "httpScaledObject", object.String(), "reason", err)
	}
	return outcome
}

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
	writers := writersOf(fresh.ManagedFields, changedKeys(now, change))
	if writers.contain(fieldManager) {
		r.logger.Info("another instance of this plugin has changed a split: left as it is", "rollout", rollout.String(), "httpScaledObject", object.String(), "split", now.String())
		return selfheal.Unneeded, nil
	}
	if owner := now.foreignTo(rollout.Name); owner != "" {
		owns, err := r.owns(ctx, object.Namespace, owner, object.Name)
		if err != nil {
			return selfheal.Failed, err
		}
		if owns {
			return selfheal.Unneeded, nil
		}
	}
	ro := &v1alpha1.Rollout{}
	err = r.whole.Get(ctx, v1alpha1.RolloutGVR, rollout.Namespace, rollout.Name, ro)
	switch {
	case apierrors.IsNotFound(err):
		r.healer.Forget(rollout)
		return selfheal.Unneeded, nil
	case err != nil:
		return selfheal.Failed, err
	// The controller will call, or has called another instance of the plugin.
	case selfheal.FingerprintOf(ro) != d.fingerprint:
		return selfheal.Unneeded, nil
	case ro.Status.Canary.Weights != nil && ro.Status.Canary.Weights.Canary.Weight != d.weight:
		return selfheal.Failed, fmt.Errorf("the Rollout's status says weight %d, the last call was for %d", ro.Status.Canary.Weights.Canary.Weight, d.weight)
	}
	if _, err := r.objects.Annotate(ctx, fresh, change); err != nil {
		return selfheal.Failed, err
	}
	r.logger.Info("split put back", "rollout", rollout.String(), "httpScaledObject", object.String(),
		"from", now.String(), "to", weightedbackends.Describe(d.split), "changedBy", writers.String())
	r.events.Warn(rolloutsplugin.RolloutReference(ro), reasonRestored, object.Name+" "+writers.String(), restoredMessage(object, fresh, now, d, writers))
	return selfheal.Repaired, nil
}

// restoredMessage says what was undone, and by whom it was done.
func restoredMessage(object k8stypes.NamespacedName, fresh *metav1.PartialObjectMetadata, now present, d decision, writers writers) string {
	const remedy = "have it leave these annotations alone; to take a split off, abort the Rollout"
	split := weightedbackends.Describe(d.split)
	if len(writers) > 0 {
		return fmt.Sprintf("field manager %s changed the split of HTTPScaledObject %s to %s; it is %s again: %s", writers, object, now, split, remedy)
	}
	managers := make([]string, len(fresh.ManagedFields))
	for i, entry := range fresh.ManagedFields {
		managers[i] = describeManager(entry)
	}
	return fmt.Sprintf("the split of HTTPScaledObject %s was removed, or the object was made anew; it is %s again: find out which of the object's field managers does so (%s) and %s",
		object, split, strings.Join(managers, ", "), remedy)
}

// changedKeys returns the annotations that have a value, and another one than
// the change gives them.
func changedKeys(now present, change map[string]*string) []string {
	var keys []string
	for key, value := range map[string]*string{weightedbackends.Annotation: now.split, weightedbackends.OwnerAnnotation: now.owner} {
		if value != nil && !equal(value, change[key]) {
			keys = append(keys, key)
		}
	}
	return keys
}
