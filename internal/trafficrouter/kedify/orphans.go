package kedify

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	k8stypes "k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
)

const (
	// orphanInterval is how often splits whose Rollout is gone are looked for.
	orphanInterval = 15 * time.Second
	// orphanTimeout bounds the requests for one of them, and orphansAtOnce is how
	// many are worked on at a time, so that a webhook that hangs for one namespace
	// holds up no other.
	orphanTimeout = 5 * time.Second
	orphansAtOnce = 8
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
// plugin for the object any more, until ctx ends. The controller makes no call
// for those. It works from the watches, and asks the API server only about a
// Rollout whose spec it has not seen to own the split.
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
	defer rolloutsplugin.LogPanic(r.logger, "looking for splits whose Rollout is gone")
	if err := r.rollouts.Connect(); err != nil {
		return
	}
	objects, ok := r.objects.Annotated()
	if !ok {
		return
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	free := make(chan struct{}, orphansAtOnce)
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
		current := ownership{owner: *now.owner}
		if rollout != nil {
			current.uid, current.generation = rollout.UID, rollout.Generation
			if r.isOwned(key, current) {
				continue
			}
		}
		free <- struct{}{}
		wg.Go(func() {
			defer rolloutsplugin.LogPanic(r.logger, "taking off the split of "+key.String())
			defer func() { <-free }()
			r.takeOffUnlessOwned(ctx, key, current)
		})
	}
	r.forgetOwned(split)
}

// takeOffUnlessOwned takes a split off an HTTPScaledObject unless its Rollout
// owns it. What keeps it from that is logged once.
func (r *Router) takeOffUnlessOwned(ctx context.Context, object k8stypes.NamespacedName, rollout ownership) {
	ctx, cancel := context.WithTimeout(ctx, orphanTimeout)
	defer cancel()
	owns, err := r.takeOffOrphan(ctx, object, rollout.owner)
	if err != nil {
		if _, logged := r.stuck.LoadOrStore(object, true); !logged {
			r.logger.Warn("it is not known whether a split is still its Rollout's, or it cannot be taken off: tried again every 15 s", "httpScaledObject", object.String(), "rollout", object.Namespace+"/"+rollout.owner, "reason", err)
		}
		return
	}
	r.stuck.Delete(object)
	if owns && rollout.uid != "" {
		r.noteOwned(object, rollout)
	}
}

// takeOffOrphan takes the split of a Rollout off an HTTPScaledObject unless the
// Rollout owns it. The Rollout is read after the object, which is written on
// condition that it did not change: a Rollout made in between keeps what it sets.
func (r *Router) takeOffOrphan(ctx context.Context, object k8stypes.NamespacedName, owner string) (owns bool, err error) {
	rollout := k8stypes.NamespacedName{Namespace: object.Namespace, Name: owner}
	orphan, err := r.readForRelease(ctx, rollout, object.Name)
	if err != nil || orphan == nil {
		return false, err
	}
	if owns, err := r.owns(ctx, object.Namespace, owner, object.Name); err != nil || owns {
		return owns, err
	}
	if err := r.release(ctx, *orphan); err != nil {
		return false, err
	}
	r.events.Warn(&corev1.ObjectReference{
		APIVersion: httpv1alpha1.GroupVersion.String(), Kind: "HTTPScaledObject",
		Namespace: object.Namespace, Name: object.Name, UID: orphan.object.UID, ResourceVersion: orphan.object.ResourceVersion,
	}, reasonRemoved, owner, fmt.Sprintf("the split %s is taken off: Rollout %s does not exist, or does not use this HTTPScaledObject any more", presentIn(orphan.object.Annotations), rollout))
	return false, nil
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
