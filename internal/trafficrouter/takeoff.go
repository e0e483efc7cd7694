package trafficrouter

import (
	"context"
	"fmt"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutspec"
	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
)

// Owns tells whether a Rollout owns what it has on an object: it is not being deleted, uses
// the plugin of that name, and names or selects the object or has a configuration that cannot
// be read. (The controller does nothing any more for a Rollout that waits for a finalizer.)
func Owns[S any](configure func(*v1alpha1.Rollout) (Config[S], error), plugin string, ro *v1alpha1.Rollout, ref Ref, has map[string]string) bool {
	if ro.DeletionTimestamp != nil || !Uses(ro, plugin) {
		return false
	}
	config, err := configure(ro)
	return err != nil || config.means(ref, has)
}

// Uses tells whether a Rollout has a configuration for a plugin, valid or not.
func Uses(ro *v1alpha1.Rollout, plugin string) bool {
	canary := ro.Spec.Strategy.Canary
	return canary != nil && canary.TrafficRouting != nil && canary.TrafficRouting.Plugins[plugin] != nil
}

// ownership says whether a Rollout still owns what it has on an object.
type ownership struct {
	owns bool
	// underWay is true for a Rollout that uses the plugin and has a canary under way.
	underWay bool
	// rollout is the Rollout, nil if it does not exist.
	rollout *v1alpha1.Rollout
}

// ownership asks the API server whether a Rollout owns what it has on an object. If the
// Rollout cannot be read, it assumes so, and the error says why. It also assumes so if
// another registration of this plugin has written it that the Rollout still has: that one
// decides.
func (r *Router[T, S]) ownership(ctx context.Context, owner Owner, ref Ref, has map[string]string) (o ownership, err error) {
	ro, err := rolloutsplugin.ReadRollout(ctx, r.whole, owner.Rollout)
	switch {
	case err != nil:
		return ownership{owns: true}, err
	case ro == nil:
		return ownership{}, nil
	}
	o.rollout = ro
	anothers := owner.Plugin != "" && owner.Plugin != r.PluginName && Uses(ro, owner.Plugin)
	o.owns = anothers || Owns(r.backend.Configure, r.PluginName, ro, ref, has)
	o.underWay = Uses(ro, r.PluginName) && rolloutspec.UnderWay(ro)
	return o, nil
}

// markOf says that an object with these labels has something of a Rollout.
func markOf(ref Ref, rollout types.NamespacedName, has map[string]string) Mark {
	return Mark{Object: ref, Rollout: rollout, Labels: labels.Set(has).String()}
}

// takeOff releases an object from a Rollout, unless the Rollout owns what it has there, or
// has a canary under way. Other Rollouts' parts of the object stay as they are.
func (r *Router[T, S]) takeOff(ctx context.Context, ref Ref, rollout types.NamespacedName) (owns bool, err error) {
	q := Query{Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name}
	object, err := r.store.Read(ctx, ref)
	if IsMissing(err) {
		return false, nil
	}
	if err != nil {
		return false, r.failed("get", q, err)
	}
	object.SetManagedFields(nil)
	current := object
	for _, owner := range r.backend.Owners(object) {
		if owner.Rollout != rollout {
			continue
		}
		o, err := r.ownership(ctx, owner, ref, object.GetLabels())
		if err != nil || o.owns || o.underWay {
			return o.owns, err
		}
		released, err := r.backend.Release(ctx, object, owner, o.rollout)
		if err != nil {
			return false, err
		}
		object = released.Object
	}
	if object == current {
		return false, nil
	}
	written, err := r.store.Write(ctx, current, object)
	if err != nil {
		return false, r.failed("patch", q, err)
	}
	r.Logger.Info("what a Rollout that does not use the object any more has left is taken off", "rollout", rollout.String(), r.LogField, r.logged(ref))
	apiVersion, _ := current.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
	r.events.Warn(&corev1.ObjectReference{
		APIVersion: apiVersion, Kind: ref.Kind,
		Namespace: ref.Namespace, Name: ref.Name, UID: written.GetUID(), ResourceVersion: written.GetResourceVersion(),
	}, r.Reasons.Released, rollout.String(), fmt.Sprintf("%s %s Rollout %s: that Rollout does not exist, or does not use this %s any more", ref, r.Released, rollout, ref.Kind))
	return false, nil
}
