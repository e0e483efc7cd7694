package resourcestep

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// find returns how the cluster serves a kind, and asks it where that is not known. A kind that is
// not served may be later. One without a namespace, and one that is allowed by a resource that
// turns out to be another's, are refused.
func (k *kind) find(ctx context.Context, of schema.GroupVersionKind) (resource, error) {
	k.mu.Lock()
	found, known := k.served[of]
	k.mu.Unlock()
	if !known {
		var err error
		if found.GroupVersionResource, found.namespaced, err = k.objects.Served(ctx, of); err != nil {
			return resource{}, err
		}
		k.mu.Lock()
		k.served[of] = found
		k.mu.Unlock()
	}
	if !found.namespaced {
		return resource{}, refused("manifest.kind: %s of %s has no namespace: a step creates objects in the Rollout's namespace alone", of.Kind, of.GroupVersion())
	}
	for _, g := range k.allowed {
		if g.Is(of.GroupKind(), found.Resource) {
			return found, nil
		}
	}
	return resource{}, k.notAllowed(of.GroupKind())
}

// unknown makes the next operation ask the cluster again, if an error says that it does not know
// the resource, as its CRD was deleted. It returns the error.
func (k *kind) unknown(of schema.GroupVersionKind, err error) error {
	if err != nil && kube.IsPathUnknown(err) {
		k.mu.Lock()
		delete(k.served, of)
		k.mu.Unlock()
	}
	return err
}
