package kedify

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8stypes "k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// release is an HTTPScaledObject, as it was read, whose split is to end.
type release struct {
	rollout k8stypes.NamespacedName
	object  *httpv1alpha1.HTTPScaledObject
}

// readForRelease reads an HTTPScaledObject; nil when it does not exist or does not
// carry the Rollout's split.
func (r *Router) readForRelease(ctx context.Context, rollout k8stypes.NamespacedName, name string) (*release, error) {
	object := &httpv1alpha1.HTTPScaledObject{}
	err := r.whole.Get(ctx, httpv1alpha1.HTTPScaledObjects, rollout.Namespace, name, object)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, requestError("get", rollout.Namespace, name, r.timeout, err)
	}
	if now := presentIn(object.Annotations); now.split == nil || now.owner == nil || *now.owner != rollout.Name {
		return nil, nil
	}
	return &release{rollout, object}, nil
}

// release ends a Rollout's split on an HTTPScaledObject, provided that the object has
// not changed since it was read.
func (r *Router) release(ctx context.Context, it release) error {
	now := presentIn(it.object.Annotations)
	object := &metav1.PartialObjectMetadata{ObjectMeta: it.object.ObjectMeta}
	written, err := r.objects.Annotate(ctx, object, released(now, it.object.Spec.ScaleTargetRef.Service))
	if err != nil {
		return requestError("patch", it.object.Namespace, it.object.Name, r.timeout, err)
	}
	r.logger.Info("split of a Rollout that does not use the HTTPScaledObject any more taken off", "rollout", it.rollout.String(),
		"httpScaledObject", it.object.Namespace+"/"+it.object.Name, "from", now.String(), "to", presentIn(written.Annotations).String())
	return nil
}
