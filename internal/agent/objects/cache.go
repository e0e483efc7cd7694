package objects

import (
	"slices"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/scaledobject"
)

// Cached says what the cache has of the objects that this part reads.
func Cached() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&scaledobject.ScaledObject{}:     {Transform: scaledObject},
		&httpv1alpha1.HTTPScaledObject{}: {Transform: httpScaledObject},
		&corev1.Event{}: {
			Transform: interceptorEvent,
			// reportingComponent is what interceptors write, and the API server can select by.
			Field: fields.SelectorFromSet(fields.Set{"reportingComponent": "interceptor", "type": corev1.EventTypeWarning, "involvedObject.kind": "HTTPScaledObject"}),
		},
	}
}

// scaledObject keeps kedify-http triggers alone, and of a ScaledObject without any hardly
// more than its name.
func scaledObject(o any) (any, error) {
	so, ok := o.(*scaledobject.ScaledObject)
	if !ok {
		return o, nil
	}
	so.ManagedFields, so.OwnerReferences, so.Finalizers = nil, nil, nil
	so.Spec.Triggers = slices.DeleteFunc(so.Spec.Triggers, func(t scaledobject.Trigger) bool { return !t.IsKedifyHTTP() })
	if len(so.Spec.Triggers) == 0 {
		so.Labels, so.Annotations, so.Spec = nil, nil, scaledobject.Spec{}
	}
	delete(so.Annotations, corev1.LastAppliedConfigAnnotation)
	return so, nil
}

// httpScaledObject keeps the names of the fields that the agent has applied, and nobody
// else's.
func httpScaledObject(o any) (any, error) {
	object, ok := o.(*httpv1alpha1.HTTPScaledObject)
	if !ok {
		return o, nil
	}
	object.ManagedFields = slices.DeleteFunc(object.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool { return !isApplied(entry) })
	delete(object.Annotations, corev1.LastAppliedConfigAnnotation)
	return object, nil
}

// Default is the transform of all other objects. Of a Rollout it keeps what names its
// Services, some hundred bytes of many thousand. (A cache with options for Rollouts would not
// start in a cluster that has none.)
func Default(o any) (any, error) {
	ro, ok := o.(*v1alpha1.Rollout)
	if !ok {
		return cache.TransformStripManagedFields()(o)
	}
	light := &v1alpha1.Rollout{
		TypeMeta: ro.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ro.Namespace, Name: ro.Name, UID: ro.UID, ResourceVersion: ro.ResourceVersion, DeletionTimestamp: ro.DeletionTimestamp,
		},
	}
	if canary := ro.Spec.Strategy.Canary; canary != nil {
		light.Spec.Strategy.Canary = &v1alpha1.CanaryStrategy{StableService: canary.StableService, CanaryService: canary.CanaryService, PingPong: canary.PingPong}
	}
	if blueGreen := ro.Spec.Strategy.BlueGreen; blueGreen != nil {
		light.Spec.Strategy.BlueGreen = &v1alpha1.BlueGreenStrategy{ActiveService: blueGreen.ActiveService}
	}
	light.Status.Canary.StablePingPong = ro.Status.Canary.StablePingPong
	return light, nil
}

// interceptorEvent keeps what is relayed.
func interceptorEvent(o any) (any, error) {
	event, ok := o.(*corev1.Event)
	if !ok {
		return o, nil
	}
	return &corev1.Event{
		TypeMeta:       event.TypeMeta,
		ObjectMeta:     metav1.ObjectMeta{Namespace: event.Namespace, Name: event.Name, UID: event.UID, ResourceVersion: event.ResourceVersion},
		InvolvedObject: corev1.ObjectReference{Name: event.InvolvedObject.Name, UID: event.InvolvedObject.UID},
		Reason:         event.Reason, Message: event.Message, LastTimestamp: event.LastTimestamp,
	}, nil
}
