package kedify

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8stypes "k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

const (
	// orphanInterval is how often splits whose Rollout is gone are looked for.
	orphanInterval = 15 * time.Second
	// reasonRemoved is the reason of the Event on an HTTPScaledObject whose split
	// was taken off because its Rollout is gone.
	reasonRemoved = "SplitRemoved"
)

// ownership is a Rollout's spec, by its version, that was seen to own a split.
type ownership struct {
	owner      string
	uid        k8stypes.UID
	generation int64
}

// takeOffOrphans takes splits off whose Rollout is deleted, or does not use the
// plugin for the object any more, until ctx ends. Nobody calls for those. It
// works from the watches, and asks the API server only about a Rollout whose
// spec it has not seen to own the split.
func (r *Router) takeOffOrphans(ctx context.Context) {
	ticker := time.NewTicker(orphanInterval)
	defer ticker.Stop()
	for {
		r.takeOffOrphansOnce(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (r *Router) takeOffOrphansOnce(ctx context.Context) {
	if err := r.rollouts.Connect(); err != nil {
		return
	}
	objects, ok := r.objects.Annotated()
	if !ok {
		return
	}
	split := map[k8stypes.NamespacedName]bool{}
	for _, object := range objects {
		now := presentIn(object.Annotations)
		if now.split == nil || now.owner == nil {
			continue
		}
		rollout, ok := r.rollouts.Watched(object.Namespace, *now.owner)
		if !ok {
			return
		}
		key := k8stypes.NamespacedName{Namespace: object.Namespace, Name: object.Name}
		split[key] = true
		if rollout != nil && r.isOwned(key, ownership{*now.owner, rollout.UID, rollout.Generation}) {
			continue
		}
		owns, err := r.takeOffOrphan(ctx, key, *now.owner)
		if err != nil {
			r.logger.Warn("a split whose Rollout may be gone stays for now", "httpScaledObject", key.String(), "rollout", key.Namespace+"/"+*now.owner, "reason", err)
			continue
		}
		if owns && rollout != nil {
			r.noteOwned(key, ownership{*now.owner, rollout.UID, rollout.Generation})
		}
	}
	r.forgetOwned(split)
}

func (r *Router) isOwned(object k8stypes.NamespacedName, o ownership) bool {
	r.ownedMu.Lock()
	defer r.ownedMu.Unlock()
	return r.owned[object] == o
}

// noteOwned has a Rollout's split on an object not be asked about again while
// the Rollout's spec stays as it is.
func (r *Router) noteOwned(object k8stypes.NamespacedName, o ownership) {
	r.ownedMu.Lock()
	defer r.ownedMu.Unlock()
	r.owned[object] = o
}

// forgetOwned drops what is known of objects that have no split. What a call
// notes meanwhile may go too: it costs a read.
func (r *Router) forgetOwned(split map[k8stypes.NamespacedName]bool) {
	r.ownedMu.Lock()
	defer r.ownedMu.Unlock()
	maps.DeleteFunc(r.owned, func(object k8stypes.NamespacedName, _ ownership) bool { return !split[object] })
}

// takeOffOrphan takes the split of a Rollout off an HTTPScaledObject unless the
// Rollout owns it.
func (r *Router) takeOffOrphan(ctx context.Context, object k8stypes.NamespacedName, owner string) (owns bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	rollout := k8stypes.NamespacedName{Namespace: object.Namespace, Name: owner}
	unlock, err := r.healer.Lock(ctx, rollout)
	if err != nil {
		return false, err
	}
	defer unlock()
	// The Rollout is read after the object, which is written on condition that it
	// did not change: a Rollout made in between keeps what it sets.
	release, err := r.prepareRelease(ctx, rollout, object.Name)
	if err != nil || release == nil {
		return false, err
	}
	if owns, err := r.owns(ctx, object.Namespace, owner, object.Name); err != nil || owns {
		return owns, err
	}
	return false, release()
}

// release ends a Rollout's split on an HTTPScaledObject that the Rollout has
// left.
func (r *Router) release(ctx context.Context, rollout k8stypes.NamespacedName, name string) error {
	release, err := r.prepareRelease(ctx, rollout, name)
	if err != nil || release == nil {
		return err
	}
	return release()
}

// prepareRelease reads an HTTPScaledObject and returns the write that ends a
// Rollout's split on it, or nil when it carries none.
func (r *Router) prepareRelease(ctx context.Context, rollout k8stypes.NamespacedName, name string) (func() error, error) {
	whole := &httpv1alpha1.HTTPScaledObject{}
	err := r.whole.Get(ctx, httpv1alpha1.HTTPScaledObjects, rollout.Namespace, name, whole)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, requestError("get", rollout.Namespace, name, r.timeout, err)
	}
	now := presentIn(whole.Annotations)
	if now.split == nil || now.owner == nil || *now.owner != rollout.Name {
		return nil, nil
	}
	return func() error {
		object := &metav1.PartialObjectMetadata{ObjectMeta: whole.ObjectMeta}
		written, err := r.objects.Annotate(ctx, object, released(now, whole.Spec.ScaleTargetRef.Service))
		if err != nil {
			return requestError("patch", rollout.Namespace, name, r.timeout, err)
		}
		left := presentIn(written.Annotations).String()
		r.logger.Info("split of a Rollout that has left taken off", "rollout", rollout.String(), "httpScaledObject", rollout.Namespace+"/"+name, "from", now.String(), "to", left)
		r.events.Warn(&corev1.ObjectReference{
			APIVersion: httpv1alpha1.GroupVersion.String(), Kind: "HTTPScaledObject",
			Namespace: whole.Namespace, Name: whole.Name, UID: whole.UID, ResourceVersion: whole.ResourceVersion,
		}, reasonRemoved, rollout.Name, "the split "+now.String()+" is taken off (now: "+left+"): Rollout "+rollout.String()+" does not exist, or does not name this HTTPScaledObject any more")
		return nil
	}, nil
}
