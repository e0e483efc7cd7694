package trigger

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/scaledobject"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

// notCopied are the annotations of a ScaledObject that its HTTPScaledObject does not get:
// kubectl's, and those that somebody else writes there.
var notCopied = []string{
	corev1.LastAppliedConfigAnnotation, weightedbackends.Annotation, weightedbackends.OwnerAnnotation,
	agent.NotWiredAnnotation, agent.AdoptAnnotation, agent.LeftAloneAnnotation, agent.WiredPathsAnnotation, agent.AutowireAnnotation,
}

// Object returns all that the agent writes of the HTTPScaledObject of a trigger, with this
// Service. An error names the key of the trigger's metadata and says what to change.
func Object(so *scaledobject.ScaledObject, t *scaledobject.Trigger, service string) (*httpv1alpha1.HTTPScaledObject, error) {
	object := &httpv1alpha1.HTTPScaledObject{
		TypeMeta: metav1.TypeMeta{APIVersion: httpv1alpha1.GroupVersion.String(), Kind: "HTTPScaledObject"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: so.Namespace, Name: so.Name, Labels: maps.Clone(so.Labels), Annotations: make(map[string]string, len(so.Annotations)+2),
			OwnerReferences: []metav1.OwnerReference{ownerReference(so)}, Finalizers: []string{agent.Finalizer},
		},
	}
	for key, value := range so.Annotations {
		if !slices.Contains(notCopied, key) {
			object.Annotations[key] = value
		}
	}
	object.Annotations[agent.SkipScaledObjectAnnotation] = "true"
	var err error
	if text, named := t.Metadata[autowireKey]; named {
		object.Annotations[agent.AutowireAnnotation] = text
		_, err = Autowire(text)
	}
	if err == nil {
		object.Spec, err = spec(so, t.Metadata, service)
	}
	if err == nil {
		err = servable(object)
	}
	if err != nil {
		return nil, fmt.Errorf("metadata of the %s trigger: %w", scaledobject.KedifyHTTP, err)
	}
	return object, nil
}

// ownerReference does not block the deletion of the ScaledObject: the HTTPScaledObject stays
// a while longer.
func ownerReference(so *scaledobject.ScaledObject) metav1.OwnerReference {
	reference := *metav1.NewControllerRef(so, scaledobject.GroupVersion.WithKind(scaledobject.Kind))
	reference.BlockOwnerDeletion = new(bool)
	return reference
}
