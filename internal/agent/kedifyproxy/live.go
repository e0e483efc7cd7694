package kedifyproxy

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kedify/argo-rollouts-plugin/internal/agent"
)

// These take the place of the managedFields of an object in the cache, as annotations.
const (
	// fieldsAnnotation has a hash of the fields that the agent owns. It changes when
	// somebody else changes one of them.
	fieldsAnnotation = "fields"
	// scaledAnnotation is there if somebody has scaled the object.
	scaledAnnotation = "scaled"
)

// live reads the objects with the names of parts, by name: caches of all Deployments or
// ConfigMaps of a cluster would be large.
type live map[string]client.Reader

// newCaches returns caches of metadata that a manager starts.
func newCaches(mgr manager.Manager) (map[string]cache.Cache, error) {
	l := map[string]cache.Cache{}
	for _, name := range []string{agent.ProxyService, adminService} {
		named, err := cache.New(mgr.GetConfig(), cache.Options{
			HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
			DefaultFieldSelector: fields.OneTermEqualSelector("metadata.name", name),
			DefaultTransform:     func(object any) (any, error) { return summary(object) },
		})
		if err != nil {
			return nil, err
		}
		if err := mgr.Add(named); err != nil {
			return nil, err
		}
		l[name] = named
	}
	return l, nil
}

// get returns what the cluster has of a part; nil if it is not there.
func (l live) get(ctx context.Context, p part, namespace string) (*metav1.PartialObjectMetadata, error) {
	found := metadataOf(p)
	err := l[p.name].Get(ctx, types.NamespacedName{Namespace: namespace, Name: p.name}, found)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", p, err)
	}
	return found, nil
}

func metadataOf(p part) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(p.GroupVersionKind)
	return object
}

// ours tells whether the agent has made an object.
func ours(object client.Object) bool { return object.GetLabels()[agent.ManagedByLabel] == agent.Name }

// summary leaves of an object's metadata what is read here.
func summary(object any) (*metav1.PartialObjectMetadata, error) {
	full, is := object.(client.Object)
	if !is {
		return nil, fmt.Errorf("expected an object with metadata, got %T", object)
	}
	small := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: full.GetNamespace(), Name: full.GetName(), UID: full.GetUID(),
		ResourceVersion: full.GetResourceVersion(), DeletionTimestamp: full.GetDeletionTimestamp(),
		Annotations: map[string]string{appliedAnnotation: full.GetAnnotations()[appliedAnnotation]},
	}}
	small.SetGroupVersionKind(full.GetObjectKind().GroupVersionKind())
	if ours(full) {
		small.Labels = map[string]string{agent.ManagedByLabel: agent.Name}
	}
	for _, entry := range full.GetManagedFields() {
		switch {
		case entry.Subresource == "scale":
			small.Annotations[scaledAnnotation] = "true"
		case entry.Manager == agent.Name && entry.Operation == metav1.ManagedFieldsOperationApply && entry.FieldsV1 != nil:
			// A watch has the fields in the API server's order, an answer to this client in
			// that of Go's maps.
			var owned map[string]any
			if err := json.Unmarshal(entry.FieldsV1.Raw, &owned); err != nil {
				return nil, fmt.Errorf("managedFields of %s/%s: %w", full.GetNamespace(), full.GetName(), err)
			}
			small.Annotations[fieldsAnnotation] = hash(owned)
		}
	}
	return small, nil
}
