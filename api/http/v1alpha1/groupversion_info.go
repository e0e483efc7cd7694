// Package v1alpha1 holds the Go types of http.keda.sh/v1alpha1: the
// HTTPScaledObject, which says which requests belong to an application and
// where they go. The definition in deploy/crds is generated from these types,
// and accepts whatever the one shipped with KEDA's HTTP add-on accepts.
//
// +kubebuilder:object:generate=true
// +groupName=http.keda.sh
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of this package's types.
const GroupName = "http.keda.sh"

var (
	// GroupVersion is the group and version of this package's types.
	GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

	// HTTPScaledObjects is the resource that HTTPScaledObject is served as.
	HTTPScaledObjects = GroupVersion.WithResource("httpscaledobjects")

	// SchemeBuilder registers this package's types.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme adds this package's types to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &HTTPScaledObject{}, &HTTPScaledObjectList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
