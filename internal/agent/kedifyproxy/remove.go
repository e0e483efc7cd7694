package kedifyproxy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RemoveAll deletes the kedify-proxies of all namespaces that the agent has made. No agent may
// run meanwhile. It is for a client without a cache.
func RemoveAll(ctx context.Context, c client.Client) error {
	var failed []error
	for _, p := range slices.Backward(parts) {
		all := &metav1.PartialObjectMetadataList{}
		all.SetGroupVersionKind(p.GroupVersionKind)
		// By name, as that is all that the agent may list.
		if err := c.List(ctx, all, client.MatchingFields{"metadata.name": p.name}); err != nil {
			failed = append(failed, fmt.Errorf("listing each %s: %w", p, err))
			continue
		}
		for i := range all.Items {
			failed = append(failed, remove(ctx, c, p, &all.Items[i]))
		}
	}
	return errors.Join(failed...)
}

// remove deletes an object if it is the agent's, and not one that has taken its name since.
func remove(ctx context.Context, c client.Client, p part, object *metav1.PartialObjectMetadata) error {
	if !ours(object) || object.DeletionTimestamp != nil {
		return nil
	}
	object.SetGroupVersionKind(p.GroupVersionKind)
	err := c.Delete(ctx, object, client.Preconditions{UID: &object.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s of namespace %s: %w", p, object.Namespace, err)
	}
	return nil
}
