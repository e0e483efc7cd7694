package check

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The kinds below hold only what the checks read. The generated types of
// k8s.io/api would add a megabyte of protobuf to the program, which speaks JSON
// to the API server and would use none of it.

// deployment is the part of an apps/v1 Deployment that the checks read.
type deployment struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector *metav1.LabelSelector  `json:"selector"`
		Template corev1.PodTemplateSpec `json:"template"`
	} `json:"spec"`
	Status scaleStatus `json:"status"`
}

// replicaSet is the part of an apps/v1 ReplicaSet that the checks read.
type replicaSet struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Replicas *int32 `json:"replicas"`
	} `json:"spec"`
	Status scaleStatus `json:"status"`
}

// scaleStatus is what the statuses of Deployment and ReplicaSet share.
type scaleStatus struct {
	Replicas          int32       `json:"replicas"`
	AvailableReplicas int32       `json:"availableReplicas"`
	Conditions        []condition `json:"conditions"`
}

type condition struct {
	Type    string                 `json:"type"`
	Status  corev1.ConditionStatus `json:"status"`
	Reason  string                 `json:"reason"`
	Message string                 `json:"message"`
}

// podsRefused returns why pods cannot be made (a quota, an admission webhook),
// or "".
func (s scaleStatus) podsRefused() string {
	for _, c := range s.Conditions {
		if c.Type == "ReplicaFailure" && c.Status == corev1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}

// serviceNameLabel is the label of an EndpointSlice that names its Service.
const serviceNameLabel = "kubernetes.io/service-name"

// endpointSlice is the part of a discovery.k8s.io/v1 EndpointSlice that the
// checks read.
type endpointSlice struct {
	metav1.ObjectMeta `json:"metadata"`
	Ports             []struct {
		Name *string `json:"name"`
		Port *int32  `json:"port"`
	} `json:"ports"`
	Endpoints []struct {
		Addresses  []string `json:"addresses"`
		Conditions struct {
			// Ready is true when absent.
			Ready *bool `json:"ready"`
		} `json:"conditions"`
	} `json:"endpoints"`
}

// webhookConfiguration is the part of an admissionregistration.k8s.io/v1
// MutatingWebhookConfiguration that the checks read.
type webhookConfiguration struct {
	Webhooks []webhook `json:"webhooks"`
}

type webhook struct {
	ClientConfig struct {
		CABundle []byte `json:"caBundle"`
	} `json:"clientConfig"`
}

// accessReview is an authorization.k8s.io/v1 SubjectAccessReview, or its
// namespaced form LocalSubjectAccessReview.
type accessReview struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Namespace string `json:"namespace,omitempty"`
	} `json:"metadata"`
	Spec struct {
		ResourceAttributes resourceAttributes `json:"resourceAttributes"`
		User               string             `json:"user"`
		Groups             []string           `json:"groups"`
	} `json:"spec"`
	Status struct {
		Allowed bool `json:"allowed"`
	} `json:"status"`
}

// resourceAttributes is what an access review asks about; an empty namespace is
// all of them.
type resourceAttributes struct {
	Namespace string `json:"namespace,omitempty"`
	Verb      string `json:"verb"`
	Group     string `json:"group"`
	Resource  string `json:"resource"`
}
