// Package stepobject is about the object of the cluster that a step makes: a Job, or one of another
// kind. It has the object's name, labels and owner, finds, creates and deletes it, and tells what
// an answer of the API server means for the step.
package stepobject

import (
	"regexp"
	"slices"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// Labels of a step's object.
const (
	// RolloutLabel has the Rollout's name, cut to the 63 characters of a label.
	RolloutLabel = "rollouts.kedify.io/rollout"
	// RolloutUIDLabel has the Rollout's UID.
	RolloutUIDLabel = "rollouts.kedify.io/rollout-uid"
	// StepLabel has the step's id.
	StepLabel = "rollouts.kedify.io/step"
	// KeyLabel has the key of the attempt at the step.
	KeyLabel = "rollouts.kedify.io/step-key"
)

const (
	// NameLimit leaves room in the name of a pod, of 63 characters, for what the object's
	// controller adds: an index and a random suffix.
	NameLimit = 52
	// idLimit bounds the step's id in a name, keyDigits the key.
	idLimit   = 20
	keyDigits = 10
)

// Metadata returns the metadata of an object of an attempt at a step.
func Metadata(work steps.Work, name string) metav1.ObjectMeta {
	ro := work.Rollout
	return metav1.ObjectMeta{
		Namespace: ro.Namespace,
		Name:      name,
		Labels: map[string]string{
			RolloutLabel:    labelOf(ro.Name),
			RolloutUIDLabel: string(ro.UID),
			StepLabel:       labelOf(work.ID),
			KeyLabel:        work.Key,
		},
		// blockOwnerDeletion would need a grant to update finalizers of Rollouts.
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Rollout", Name: ro.Name, UID: ro.UID,
		}},
	}
}

var notInName = regexp.MustCompile(`[^a-z0-9-]+`)

// NameOf returns the name of the object of an attempt at a step: the Rollout's name, the step's
// id, the beginning of the key, and what tells several objects of the attempt apart.
func NameOf(work steps.Work, suffix ...string) string {
	key := work.Key[:min(keyDigits, len(work.Key))]
	rest := append([]string{dnsLabel(work.ID, idLimit), key}, suffix...)
	left := NameLimit
	for _, part := range rest {
		left -= len("-") + len(part)
	}
	return strings.Join(append([]string{dnsLabel(work.Rollout.Name, left)}, rest...), "-")
}

// dnsLabel turns a text into a part of a DNS label.
func dnsLabel(text string, limit int) string {
	text = notInName.ReplaceAllString(strings.ToLower(text), "-")
	return strings.Trim(text[:min(limit, len(text))], "-")
}

// labelOf turns a text into the value of a label.
func labelOf(text string) string {
	return strings.Trim(text[:min(validation.LabelValueMaxLength, len(text))], "-_.")
}

// IsOf tells whether an object belongs to an attempt at a step.
func IsOf(object metav1.Object, work steps.Work) bool {
	return object.GetLabels()[KeyLabel] == work.Key && IsOwnedBy(object, work.Rollout)
}

// IsOwnedBy tells whether an object is a Rollout's.
func IsOwnedBy(object metav1.Object, ro *v1alpha1.Rollout) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.UID == ro.UID })
}

// OfRollout selects the objects of all steps of a Rollout, OfStep those of one step.
func OfRollout(ro *v1alpha1.Rollout) string { return RolloutUIDLabel + "=" + string(ro.UID) }

// OfStep selects the objects of all attempts at a step.
func OfStep(work steps.Work) string {
	return OfRollout(work.Rollout) + "," + StepLabel + "=" + labelOf(work.ID)
}
