package uninstall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/scaledobject"
)

// written are the kinds of objects of which the agent, or its end, writes fields.
var written = []schema.GroupVersionKind{
	scaledobject.GroupVersion.WithKind(scaledobject.Kind),
	networkingv1.SchemeGroupVersion.WithKind("Ingress"),
	httpv1alpha1.GroupVersion.WithKind("HTTPScaledObject"),
}

// disown makes the agent the owner of no field any more. Otherwise whoever applies another
// value server-side would have a conflict with an agent that is gone.
func disown(ctx context.Context, c client.Client) error {
	var failed []error
	for _, kind := range written {
		var all metav1.PartialObjectMetadataList
		all.SetGroupVersionKind(kind)
		if err := ignoreNoKind(c.List(ctx, &all)); err != nil {
			return fmt.Errorf("listing each %s: %w", kind.Kind, err)
		}
		for i := range all.Items {
			object := &all.Items[i]
			object.SetGroupVersionKind(kind)
			failed = append(failed, gone(object, kind.Kind, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
				return disownOne(ctx, c, object)
			})))
		}
	}
	return errors.Join(failed...)
}

func disownOne(ctx context.Context, c client.Client, object *metav1.PartialObjectMetadata) error {
	left := slices.DeleteFunc(slices.Clone(object.ManagedFields), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == agent.Name })
	if len(left) == len(object.ManagedFields) {
		return nil
	}
	if len(left) == 0 {
		left = []metav1.ManagedFieldsEntry{{}} // which is how to say that there are none
	}
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": object.ResourceVersion, "managedFields": left}})
	if err != nil {
		return err
	}
	if err = c.Patch(ctx, object, client.RawPatch(types.MergePatchType, text)); err != nil {
		return errors.Join(err, c.Get(ctx, client.ObjectKeyFromObject(object), object))
	}
	return nil
}
