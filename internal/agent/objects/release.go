package objects

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/ingress"
)

const (
	// keptServed is for how long an object is served after its Ingresses have been put back:
	// their controllers need some time to notice.
	keptServed = 10 * time.Second
	// lookAgain is how often Ingresses are looked at meanwhile, in the cache.
	lookAgain = time.Second
)

// release lets an HTTPScaledObject go that is being deleted, once no request can be on its
// way to it: when its namespace goes, or when for keptServed no Ingress has pointed at
// kedify-proxy for it. What was before the agent started is not known, so that an object may
// be kept a little longer than it needs to be.
func (r *reconciler) release(ctx context.Context, object *httpv1alpha1.HTTPScaledObject) (reconcile.Result, error) {
	if !slices.Contains(object.Finalizers, agent.Finalizer) {
		return reconcile.Result{}, nil
	}
	namespace, err := get[corev1.Namespace](ctx, r, types.NamespacedName{Name: object.Namespace})
	if err != nil {
		return reconcile.Result{}, err
	}
	if namespace != nil && namespace.DeletionTimestamp == nil {
		pointedAt, err := r.pointedAt(ctx, object)
		if err != nil {
			return reconcile.Result{}, err
		}
		free := r.freeFor(object.UID, pointedAt)
		switch {
		case pointedAt:
			return reconcile.Result{RequeueAfter: lookAgain}, nil
		case free < keptServed:
			// No path is pointed at kedify-proxy for an object that is being deleted.
			return reconcile.Result{RequeueAfter: keptServed - free}, nil
		}
	}
	released := object.DeepCopy()
	released.Finalizers = slices.DeleteFunc(released.Finalizers, func(f string) bool { return f == agent.Finalizer })
	patch := client.MergeFromWithOptions(object, client.MergeFromWithOptimisticLock{})
	if err := client.IgnoreNotFound(r.Patch(ctx, released, patch, client.FieldOwner(agent.Name))); err != nil {
		return reconcile.Result{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.free, object.UID)
	return reconcile.Result{}, nil
}

// pointedAt tells whether an Ingress points at kedify-proxy for an object.
func (r *reconciler) pointedAt(ctx context.Context, object *httpv1alpha1.HTTPScaledObject) (bool, error) {
	var list networkingv1.IngressList
	if err := r.List(ctx, &list, client.InNamespace(object.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return false, err
	}
	return slices.ContainsFunc(list.Items, func(i networkingv1.Ingress) bool { return ingress.PointsAt(&i, object.Name) }), nil
}

// freeFor returns for how long no Ingress has pointed at kedify-proxy for an object.
func (r *reconciler) freeFor(object types.UID, pointedAt bool) time.Duration {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if pointedAt {
		delete(r.free, object)
		return 0
	}
	since, known := r.free[object]
	if !known {
		since = now
		r.free[object] = now
	}
	return now.Sub(since)
}
