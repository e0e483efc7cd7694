// Package scaledobject has the fields of KEDA's ScaledObject (keda.sh/v1alpha1) that the
// agent reads. KEDA's own types need other versions of Kubernetes' libraries. An object of
// this type is never written: it lacks fields.
//
// +kubebuilder:object:generate=true
package scaledobject

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind is the kind of a ScaledObject.
const Kind = "ScaledObject"

var (
	// GroupVersion is the group and version of a ScaledObject.
	GroupVersion = schema.GroupVersion{Group: "keda.sh", Version: "v1alpha1"}

	schemeBuilder = runtime.NewSchemeBuilder(func(scheme *runtime.Scheme) error {
		scheme.AddKnownTypes(GroupVersion, &ScaledObject{}, &ScaledObjectList{})
		metav1.AddToGroupVersion(scheme, GroupVersion)
		return nil
	})

	// AddToScheme adds ScaledObject to a scheme.
	AddToScheme = schemeBuilder.AddToScheme
)

// ScaledObject says by what a workload is scaled.
//
// +kubebuilder:object:root=true
type ScaledObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec Spec `json:"spec"`
}

// ScaledObjectList is a list of ScaledObjects.
//
// +kubebuilder:object:root=true
type ScaledObjectList struct { //nolint:revive // The API server's name of it.
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ScaledObject `json:"items"`
}

// Spec is what is asked for.
type Spec struct {
	ScaleTargetRef  ScaleTargetRef `json:"scaleTargetRef"`
	MinReplicaCount *int32         `json:"minReplicaCount,omitempty"`
	MaxReplicaCount *int32         `json:"maxReplicaCount,omitempty"`
	Triggers        []Trigger      `json:"triggers"`
}

// ScaleTargetRef is the workload that is scaled. Without APIVersion and Kind it is a
// Deployment of apps/v1.
type ScaleTargetRef struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Name       string `json:"name"`
}

// Trigger is what a workload is scaled by.
type Trigger struct {
	Type     string            `json:"type"`
	Metadata map[string]string `json:"metadata"`
}
