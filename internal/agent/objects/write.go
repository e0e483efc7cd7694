package objects

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/scaledobject"
)

// nowhere is a resourceVersion that no HTTPScaledObject has. With it an apply makes an
// object, and conflicts if there is one that the cache does not show yet.
const nowhere = "1"

// ownedBy tells whether an HTTPScaledObject was made from a ScaledObject, and not from an
// earlier one of its name.
func ownedBy(object *httpv1alpha1.HTTPScaledObject, so *scaledobject.ScaledObject) bool {
	owner := agent.OwnerOf(object)
	return owner != nil && owner.UID == so.UID
}

// madeByAgent tells whether an HTTPScaledObject was made from a ScaledObject of this name.
// An earlier one may have been deleted without its dependents, or both may be restored from
// a backup, with other UIDs.
func madeByAgent(object *httpv1alpha1.HTTPScaledObject, so *scaledobject.ScaledObject) bool {
	if owner := agent.OwnerOf(object); owner != nil {
		return owner.Name == so.Name
	}
	return metav1.GetControllerOf(object) == nil && slices.Contains(object.Finalizers, agent.Finalizer)
}

// keepNotWired keeps what is said about the wiring, which is not this part's to change. The
// apply is on condition that the object is as it was read.
func keepNotWired(wanted, object *httpv1alpha1.HTTPScaledObject) {
	if why, there := object.Annotations[agent.NotWiredAnnotation]; there {
		wanted.Annotations[agent.NotWiredAnnotation] = why
	}
}

// inStep tells whether an object has all that is wanted, and nothing that the agent wanted
// before.
func inStep(object, wanted *httpv1alpha1.HTTPScaledObject) bool {
	ofMetadata := appliedMetadata(object)
	return equality.Semantic.DeepEqual(metav1.GetControllerOf(object), metav1.GetControllerOf(wanted)) &&
		slices.Contains(object.Finalizers, agent.Finalizer) &&
		hasExactly(object.Labels, wanted.Labels, ofMetadata.Labels) &&
		hasExactly(object.Annotations, wanted.Annotations, ofMetadata.Annotations) &&
		sameSpec(object, wanted)
}

// hasExactly tells whether a map has all wanted entries, and of those that were applied none
// that is not wanted.
func hasExactly(there, wanted map[string]string, applied map[string]json.RawMessage) bool {
	for key, value := range wanted {
		if is, ok := there[key]; !ok || is != value {
			return false
		}
	}
	for field := range applied {
		if key, ok := strings.CutPrefix(field, "f:"); ok {
			if _, ok := wanted[key]; !ok {
				return false
			}
		}
	}
	return true
}

// appliedKeys has the keys of labels and annotations that the agent has applied, each with "f:"
// before it.
type appliedKeys struct {
	Labels      map[string]json.RawMessage `json:"f:labels"`
	Annotations map[string]json.RawMessage `json:"f:annotations"`
}

// appliedMetadata reads what the API server has written down about the agent's last apply.
func appliedMetadata(object *httpv1alpha1.HTTPScaledObject) appliedKeys {
	var fields struct {
		Metadata appliedKeys `json:"f:metadata"`
	}
	for _, entry := range object.ManagedFields {
		if isApplied(entry) && entry.FieldsV1 != nil {
			// What cannot be read is as if nothing was applied: then too little is removed.
			_ = json.Unmarshal(entry.FieldsV1.Raw, &fields)
		}
	}
	return fields.Metadata
}

// isApplied tells whether fields are those of the agent's applies.
func isApplied(entry metav1.ManagedFieldsEntry) bool {
	return entry.Manager == agent.Name && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == ""
}

// sameSpec compares the fields of a spec that a trigger decides. Others are anybody's.
func sameSpec(a, b *httpv1alpha1.HTTPScaledObject) bool {
	of := func(object *httpv1alpha1.HTTPScaledObject) *httpv1alpha1.HTTPScaledObjectSpec {
		only := new(httpv1alpha1.HTTPScaledObjectSpec)
		decide(only, &object.Spec)
		return only
	}
	return equality.Semantic.DeepEqual(of(a), of(b))
}

// decide sets the fields of a spec that a trigger decides.
func decide(spec, wanted *httpv1alpha1.HTTPScaledObjectSpec) {
	spec.Hosts, spec.PathPrefixes, spec.Headers = wanted.Hosts, wanted.PathPrefixes, wanted.Headers
	spec.ScaleTargetRef, spec.Replicas, spec.ScalingMetric = wanted.ScaleTargetRef, wanted.Replicas, wanted.ScalingMetric
}

// write brings an object of the agent's in step. What an apply cannot remove, since others
// have set it too, is replaced.
func (r *reconciler) write(ctx context.Context, wanted, object *httpv1alpha1.HTTPScaledObject) (*httpv1alpha1.HTTPScaledObject, error) {
	written, err := r.apply(ctx, wanted, object)
	switch {
	case apierrors.IsInvalid(err):
		return r.takeOver(ctx, wanted, object)
	case err == nil && !sameSpec(written, wanted):
		return r.takeOver(ctx, wanted, written)
	}
	return written, err
}

// takeOver gives an object the wanted owner and spec, whoever has set the present ones, and
// then applies them, so that they are the agent's. It is in place: all else stays, such as
// a split.
func (r *reconciler) takeOver(ctx context.Context, wanted, object *httpv1alpha1.HTTPScaledObject) (*httpv1alpha1.HTTPScaledObject, error) {
	replaced := object.DeepCopy()
	decide(&replaced.Spec, &wanted.Spec)
	replaced.OwnerReferences = append(slices.DeleteFunc(replaced.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Controller != nil && *o.Controller
	}), wanted.OwnerReferences...)
	patch := client.MergeFromWithOptions(object, client.MergeFromWithOptimisticLock{})
	if err := r.Patch(ctx, replaced, patch, client.FieldOwner(agent.Name)); err != nil {
		return nil, err
	}
	return r.apply(ctx, wanted, replaced)
}

// apply writes what is wanted, by server-side apply. It conflicts if the object is not as it
// was read any more, nil for one that was not there.
func (r *reconciler) apply(ctx context.Context, wanted, read *httpv1alpha1.HTTPScaledObject) (*httpv1alpha1.HTTPScaledObject, error) {
	written := wanted.DeepCopy()
	written.ResourceVersion = nowhere
	if read != nil {
		written.ResourceVersion = read.ResourceVersion
	}
	err := r.Patch(ctx, written, client.Apply, client.ForceOwnership, client.FieldOwner(agent.Name))
	return written, err
}

// writeStatus fills the columns of kubectl get.
func (r *reconciler) writeStatus(ctx context.Context, so *scaledobject.ScaledObject, object *httpv1alpha1.HTTPScaledObject) error {
	status := statusOf(so, object, r.now())
	if equality.Semantic.DeepEqual(object.Status, status) {
		return nil
	}
	written := object.DeepCopy()
	written.Status = status
	err := r.Status().Patch(ctx, written, client.MergeFrom(object), client.FieldOwner(agent.Name))
	return client.IgnoreNotFound(err)
}

// statusOf returns the status of an object that is in step. It is ready unless its requests
// do not pass a proxy yet.
func statusOf(so *scaledobject.ScaledObject, object *httpv1alpha1.HTTPScaledObject, now time.Time) httpv1alpha1.HTTPScaledObjectStatus {
	target := object.Spec.ScaleTargetRef
	ready := httpv1alpha1.Condition{
		Type: httpv1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: httpv1alpha1.ReasonHTTPScaledObjectIsReady,
		Message: fmt.Sprintf("made from ScaledObject %s/%s", so.Namespace, so.Name), Timestamp: now.UTC().Format(time.RFC3339),
	}
	if why, notWired := object.Annotations[agent.NotWiredAnnotation]; notWired {
		ready.Status, ready.Message = metav1.ConditionFalse, why
	}
	for _, is := range object.Status.Conditions {
		if is.Type == ready.Type && is.Status == ready.Status && is.Reason == ready.Reason && is.Message == ready.Message {
			ready.Timestamp = is.Timestamp
		}
	}
	port := ""
	switch {
	case target.Port != nil:
		port = fmt.Sprint(*target.Port)
	case target.PortName != nil:
		port = *target.PortName
	}
	return httpv1alpha1.HTTPScaledObjectStatus{
		TargetWorkload: fmt.Sprintf("%s/%s/%s", target.APIVersion, target.Kind, target.Name),
		TargetService:  target.Service + ":" + port,
		Conditions:     []httpv1alpha1.Condition{ready},
	}
}
