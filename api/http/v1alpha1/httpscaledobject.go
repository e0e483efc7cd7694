package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HTTPScaledObject selects requests by host, path and header, names the Service
// that they go to, and says by which of their numbers the workload behind it is
// scaled.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=httpscaledobjects,scope=Namespaced,shortName=httpso
// +kubebuilder:printcolumn:name="TargetWorkload",type="string",JSONPath=".status.targetWorkload"
// +kubebuilder:printcolumn:name="TargetService",type="string",JSONPath=".status.targetService"
// +kubebuilder:printcolumn:name="MinReplicas",type="integer",JSONPath=".spec.replicas.min"
// +kubebuilder:printcolumn:name="MaxReplicas",type="integer",JSONPath=".spec.replicas.max"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Active",type="string",JSONPath=".status.conditions[?(@.reason==\"HTTPScaledObjectIsReady\")].status"
type HTTPScaledObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   HTTPScaledObjectSpec   `json:"spec,omitempty"`
	Status HTTPScaledObjectStatus `json:"status,omitempty"`
}

// HTTPScaledObjectList is a list of HTTPScaledObjects.
//
// +kubebuilder:object:root=true
type HTTPScaledObjectList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []HTTPScaledObject `json:"items"`
}

// HTTPScaledObjectSpec is what is asked for.
type HTTPScaledObjectSpec struct {
	// Hosts of the requests that belong to the application, compared with
	// their Host header. None given: any host.
	// +optional
	Hosts []string `json:"hosts,omitempty"`

	// Path prefixes of the requests that belong to the application. None
	// given: any path.
	// +optional
	PathPrefixes []string `json:"pathPrefixes,omitempty"`

	// Headers of the requests that belong to the application, looked at once
	// host and path match. A request needs to carry any one of them. None
	// given: the object takes the requests whose headers no other object asks
	// for.
	// +optional
	Headers []Header `json:"headers,omitempty"`

	// Where the requests go, and the workload that is scaled.
	ScaleTargetRef ScaleTargetRef `json:"scaleTargetRef"`

	// Bounds of the number of replicas.
	// +optional
	Replicas *ReplicaBounds `json:"replicas,omitempty"`

	// Where requests go when the target has not become available in time.
	// +optional
	ColdStartTimeoutFailoverRef *ColdStartTimeoutFailoverRef `json:"coldStartTimeoutFailoverRef,omitempty"`

	// Seconds after the object is made during which nothing is scaled down.
	// +optional
	InitialCooldownPeriod *int32 `json:"initialCooldownPeriod,omitempty"`

	// Seconds after the last request before the workload is scaled down to
	// the fewest replicas.
	// +optional
	ScaledownPeriod *int32 `json:"scaledownPeriod,omitempty"`

	// The number that the workload is scaled by.
	// +optional
	ScalingMetric *ScalingMetric `json:"scalingMetric,omitempty"`

	// Pending requests aimed at per replica.
	//
	// Deprecated: use scalingMetric.
	// +optional
	TargetPendingRequests *int32 `json:"targetPendingRequests,omitempty"`

	// Timeouts of this object's requests, in place of the interceptor's own.
	// +optional
	Timeouts *Timeouts `json:"timeouts,omitempty"`
}

// Header is one header of a request, by name and value.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// ScaleTargetRef names the Service that requests go to, one of its ports, and
// the workload that is scaled.
//
// +kubebuilder:validation:XValidation:rule="has(self.portName) != has(self.port)",message="must define either the 'portName' or the 'port'"
type ScaleTargetRef struct {
	// API version of the workload.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`

	// Kind of the workload.
	// +optional
	Kind string `json:"kind,omitempty"`

	// Name of the workload.
	// +optional
	Name string `json:"name,omitempty"`

	// Name of the Service.
	Service string `json:"service"`

	// Port of the Service, by number. Exactly one of port and portName is
	// given.
	// +optional
	Port *int32 `json:"port,omitempty"`

	// Port of the Service, by name.
	// +optional
	PortName *string `json:"portName,omitempty"`
}

// ColdStartTimeoutFailoverRef names the Service that requests go to when the
// target has not become available in time.
//
// +kubebuilder:validation:XValidation:rule="has(self.portName) != has(self.port)",message="must define either the 'portName' or the 'port'"
type ColdStartTimeoutFailoverRef struct {
	// Name of the Service.
	Service string `json:"service"`

	// Port of the Service, by number. Exactly one of port and portName is
	// given.
	// +optional
	Port *int32 `json:"port,omitempty"`

	// Port of the Service, by name.
	// +optional
	PortName *string `json:"portName,omitempty"`

	// Seconds to wait for the target before requests go here. Where this
	// Service has no ready replica itself by then, they wait on for either,
	// until timeouts.conditionWait is over.
	// +optional
	// +kubebuilder:default=30
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
}

// ReplicaBounds are the fewest and the most replicas of a workload.
type ReplicaBounds struct {
	// Fewest replicas; 0 when left out.
	// +optional
	Min *int32 `json:"min,omitempty"`

	// Most replicas; 100 when left out.
	// +optional
	Max *int32 `json:"max,omitempty"`
}

// ScalingMetric is the number that a workload is scaled by.
type ScalingMetric struct {
	// Scale by the requests that are under way at the same time.
	// +optional
	Concurrency *ConcurrencyMetric `json:"concurrency,omitempty"`

	// Scale by the average rate of requests.
	// +optional
	RequestRate *RequestRateMetric `json:"requestRate,omitempty"`
}

// ConcurrencyMetric scales by the requests that are under way at the same time.
type ConcurrencyMetric struct {
	// Requests aimed at per replica.
	// +optional
	// +kubebuilder:default=100
	TargetValue *int `json:"targetValue,omitempty"`
}

// RequestRateMetric scales by the average rate of requests. Its durations are
// strings, here and in Timeouts, because that is all the definition asks of
// them: one object with a duration that cannot be parsed must not make the
// list it is in unreadable.
type RequestRateMetric struct {
	// Requests per second aimed at per replica.
	// +optional
	// +kubebuilder:default=100
	TargetValue *int `json:"targetValue,omitempty"`

	// Time over which the rate is averaged, as in "1m" or "90s".
	// +optional
	// +kubebuilder:default="1m"
	Window *string `json:"window,omitempty"`

	// Length of the slices of time that requests are counted in, as in "1s".
	// +optional
	// +kubebuilder:default="1s"
	Granularity *string `json:"granularity,omitempty"`
}

// Timeouts are timeouts of one object's requests.
type Timeouts struct {
	// Time that a request waits for a first ready replica, as in "20s". Left
	// out: the interceptor's KEDA_CONDITION_WAIT_TIMEOUT. With a
	// coldStartTimeoutFailoverRef, its timeoutSeconds come first.
	// +optional
	ConditionWait *string `json:"conditionWait,omitempty"`

	// Time from the request being sent to the application until the headers
	// of its response are there, as in "500ms". Left out: the interceptor's
	// KEDA_RESPONSE_HEADER_TIMEOUT.
	// +optional
	ResponseHeader *string `json:"responseHeader,omitempty"`
}

// HTTPScaledObjectStatus is what has been seen.
type HTTPScaledObjectStatus struct {
	// The workload that is scaled.
	// +optional
	TargetWorkload string `json:"targetWorkload,omitempty"`

	// The Service that requests go to.
	// +optional
	TargetService string `json:"targetService,omitempty"`

	// What is true of the object.
	// +optional
	Conditions []Condition `json:"conditions,omitempty"`
}

// Condition is one thing that is true, false or unknown of an object.
type Condition struct {
	// Type of the condition.
	Type ConditionType `json:"type"`

	// One of True, False and Unknown.
	Status metav1.ConditionStatus `json:"status"`

	// Why the condition last changed.
	// +optional
	Reason ConditionReason `json:"reason,omitempty"`

	// Details of the last change, for people.
	// +optional
	Message string `json:"message,omitempty"`

	// When the condition last changed.
	// +optional
	Timestamp string `json:"timestamp,omitempty"`
}

// ConditionType is what a condition is about.
//
// +kubebuilder:validation:Enum=Ready
type ConditionType string

// ConditionReady is true once requests are routed and the workload is scaled.
const ConditionReady ConditionType = "Ready"

// ConditionReason is why a condition changed.
//
// +kubebuilder:validation:Enum=ErrorCreatingAppScaledObject;AppScaledObjectCreated;TerminatingResources;AppScaledObjectTerminated;AppScaledObjectTerminationError;PendingCreation;HTTPScaledObjectIsReady
type ConditionReason string

// The reasons that the shipped definition allows; any other is refused.
const (
	// ReasonErrorCreatingAppScaledObject: the ScaledObject could not be made.
	ReasonErrorCreatingAppScaledObject ConditionReason = "ErrorCreatingAppScaledObject"
	// ReasonAppScaledObjectCreated: the ScaledObject has been made.
	ReasonAppScaledObjectCreated ConditionReason = "AppScaledObjectCreated"
	// ReasonTerminatingResources: what was made is being deleted.
	ReasonTerminatingResources ConditionReason = "TerminatingResources"
	// ReasonAppScaledObjectTerminated: the ScaledObject has been deleted.
	ReasonAppScaledObjectTerminated ConditionReason = "AppScaledObjectTerminated"
	// ReasonAppScaledObjectTerminationError: the ScaledObject could not be deleted.
	ReasonAppScaledObjectTerminationError ConditionReason = "AppScaledObjectTerminationError"
	// ReasonPendingCreation: the object has been seen, nothing made yet.
	ReasonPendingCreation ConditionReason = "PendingCreation"
	// ReasonHTTPScaledObjectIsReady: all is in place.
	ReasonHTTPScaledObjectIsReady ConditionReason = "HTTPScaledObjectIsReady"
)
