package kedify

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	k8stypes "k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/orphans"
)

// reasonRemoved is the reason of the Event on an HTTPScaledObject whose split was taken
// off because its Rollout is gone.
const reasonRemoved = "SplitRemoved"

// markOf says that an HTTPScaledObject carries the split of a Rollout, which is of the
// same namespace.
func markOf(object k8stypes.NamespacedName, rollout string) orphans.Mark[k8stypes.NamespacedName] {
	return orphans.Mark[k8stypes.NamespacedName]{Object: object, Rollout: k8stypes.NamespacedName{Namespace: object.Namespace, Name: rollout}}
}

// splits returns a mark for each split with an owner that the watch shows.
func (r *Router) splits(context.Context) []orphans.Mark[k8stypes.NamespacedName] {
	objects, _ := r.objects.Annotated()
	var marks []orphans.Mark[k8stypes.NamespacedName]
	for _, object := range objects {
		if now := presentIn(object.Annotations); now.split != nil && now.owner != nil {
			marks = append(marks, markOf(k8stypes.NamespacedName{Namespace: object.Namespace, Name: object.Name}, *now.owner))
		}
	}
	return marks
}

// takeOffOrphan removes the split of a Rollout from an HTTPScaledObject unless the
// Rollout owns it or has a canary under way.
func (r *Router) takeOffOrphan(ctx context.Context, object, rollout k8stypes.NamespacedName) (owns bool, err error) {
	orphan, err := r.readForRelease(ctx, rollout, object.Name)
	if err != nil || orphan == nil {
		return false, err
	}
	owns, underWay, err := r.owns(ctx, object.Namespace, rollout.Name, object.Name)
	if err != nil || owns || underWay {
		return owns, err
	}
	if err := r.release(ctx, *orphan); err != nil {
		return false, err
	}
	r.events.Warn(&corev1.ObjectReference{
		APIVersion: httpv1alpha1.GroupVersion.String(), Kind: "HTTPScaledObject",
		Namespace: object.Namespace, Name: object.Name, UID: orphan.object.UID, ResourceVersion: orphan.object.ResourceVersion,
	}, reasonRemoved, rollout.Name, fmt.Sprintf("the split %s is taken off: Rollout %s does not exist, or does not use this HTTPScaledObject any more", presentIn(orphan.object.Annotations), rollout))
	return false, nil
}
