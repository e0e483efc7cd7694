package check

import (
	"strings"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/scaledobject"
)

// snapshot is everything that the checks decide on: what the cluster said, or
// why it did not say it. Checks are pure functions of it.
type snapshot struct {
	// namespace and rollout are what was asked for; rollout may be empty.
	namespace, rollout string

	controller controllerSnapshot
	objects    namespaceSnapshot
	keda       kedaSnapshot
	proxies    proxySnapshot
	// plugins are those of the routers that are looked at.
	plugins []pluginSnapshot
	gateway gatewaySnapshot
	steps   stepSnapshot
	scalers []scalerAddress
	agent   agentSnapshot
}

// plugin returns the plugin of a router, or nil where it is not looked at.
func (s snapshot) plugin(name string) *pluginSnapshot {
	for i := range s.plugins {
		if s.plugins[i].name == name {
			return &s.plugins[i]
		}
	}
	return nil
}

// controllerSnapshot is the Argo Rollouts controller and its configuration.
type controllerSnapshot struct {
	// found is the Deployments that look like the controller; its error is that
	// of the search.
	found read[[]deployment]
	// searched says where, for messages.
	searched string
	// deployment is the one of found that serves the namespace, or nil.
	deployment *deployment
	// now is when the pods were read.
	now time.Time
	// configNamespace is where the controller reads its ConfigMap.
	configNamespace string

	config read[*corev1.ConfigMap]
	pods   read[[]corev1.Pod]
	nodes  map[string]read[corev1.Node]
	// logs are the ends of the pods' logs by pod name, after that of the previous run
	// if the container was restarted and the current run has no fatal line.
	logs map[string][]string
}

// pluginSnapshot is the plugin of one of the routers that are looked at.
type pluginSnapshot struct {
	router
	// oneOfSeveral is true where other plugins are looked at, too.
	oneOfSeveral bool
	// watchNamespace is the one namespace that the plugin watches, empty for all.
	watchNamespace string
	// selfHeals is whether the plugin writes between two calls.
	selfHeals bool
	// access says which access the plugin needs, and whether the controller's
	// ServiceAccount has it.
	access []access
	// binding is the router's ClusterRoleBinding, to say whom it binds instead.
	binding read[clusterRoleBinding]
	// download is nil unless it was asked for and there is something to fetch.
	download *downloaded
}

// access is the answer to one subject access review.
type access struct {
	verb, resource string
	// or is a verb that is as good; empty if verb was granted, or if there is none.
	or string
	// namespace is empty for all namespaces, name for all objects.
	namespace, name string
	allowed         read[bool]
	// without says what does not work if the access is denied; empty if the plugin
	// cannot work at all.
	without string
}

// namespaceSnapshot is what the Rollouts' namespace holds.
type namespaceSnapshot struct {
	rollouts          read[[]v1alpha1.Rollout]
	httpScaledObjects read[[]httpScaledObject]
	scaledObjects     read[[]scaledObject]
	services          read[[]corev1.Service]
	endpointSlices    read[[]endpointSlice]
	replicaSets       read[[]replicaSet]
	pods              read[[]corev1.Pod]
	// events are those of the reason TrafficRoutingError.
	events read[[]corev1.Event]
}

// kedaSnapshot is KEDA's operator, read only when a ScaledObject needs it.
type kedaSnapshot struct {
	wanted     bool
	found      read[[]deployment]
	deployment *deployment
	access     []access
}

// httpScaledObject is the part of an HTTPScaledObject that the checks read.
type httpScaledObject struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Hosts          []string `json:"hosts"`
		PathPrefixes   []string `json:"pathPrefixes"`
		ScaleTargetRef struct {
			Service  string `json:"service"`
			Port     int32  `json:"port"`
			PortName string `json:"portName"`
		} `json:"scaleTargetRef"`
		ScalingMetric *httpv1alpha1.ScalingMetric `json:"scalingMetric"`
	} `json:"spec"`
}

// scaledObject is the part of KEDA's ScaledObject that the checks read.
type scaledObject struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		MinReplicaCount *int32 `json:"minReplicaCount"`
		ScaleTargetRef  struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Name       string `json:"name"`
		} `json:"scaleTargetRef"`
		Triggers []scaledobject.Trigger `json:"triggers"`
	} `json:"spec"`
	Status struct {
		Conditions []condition `json:"conditions"`
	} `json:"status"`
}

// minReplicas returns minReplicaCount, or KEDA's default of it.
func (o scaledObject) minReplicas() int32 {
	if o.Spec.MinReplicaCount == nil {
		return 0
	}
	return *o.Spec.MinReplicaCount
}

func (o scaledObject) targets(rollout string) bool {
	ref := o.Spec.ScaleTargetRef
	return ref.Kind == "Rollout" && ref.Name == rollout && strings.HasPrefix(ref.APIVersion, "argoproj.io/")
}

// scaledObjectsOf returns the ScaledObjects that scale a Rollout.
func (n namespaceSnapshot) scaledObjectsOf(rollout string) []scaledObject {
	var found []scaledObject
	for _, o := range n.scaledObjects.Value {
		if o.targets(rollout) {
			found = append(found, o)
		}
	}
	return found
}

func (n namespaceSnapshot) rollout(name string) *v1alpha1.Rollout {
	for i := range n.rollouts.Value {
		if n.rollouts.Value[i].Name == name {
			return &n.rollouts.Value[i]
		}
	}
	return nil
}

func (n namespaceSnapshot) httpScaledObject(name string) *httpScaledObject {
	for i := range n.httpScaledObjects.Value {
		if n.httpScaledObjects.Value[i].Name == name {
			return &n.httpScaledObjects.Value[i]
		}
	}
	return nil
}

func (n namespaceSnapshot) service(name string) *corev1.Service {
	for i := range n.services.Value {
		if n.services.Value[i].Name == name {
			return &n.services.Value[i]
		}
	}
	return nil
}

// replicaSet returns the ReplicaSet of a Rollout (or of its Experiments) with a
// pod template hash.
func (n namespaceSnapshot) replicaSet(hash string) *replicaSet {
	if hash == "" {
		return nil
	}
	for i := range n.replicaSets.Value {
		if n.replicaSets.Value[i].Labels[v1alpha1.DefaultRolloutUniqueLabelKey] == hash {
			return &n.replicaSets.Value[i]
		}
	}
	return nil
}

// podsMatching returns the pods that a Service with this selector selects, without
// those that are being deleted.
func (n namespaceSnapshot) podsMatching(selector map[string]string) []corev1.Pod {
	var pods []corev1.Pod
	for _, pod := range n.pods.Value {
		if pod.DeletionTimestamp == nil && isSubset(selector, pod.Labels) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// isSubset tells whether labels has every pair of selector.
func isSubset(selector, labels map[string]string) bool {
	for key, value := range selector {
		if got, found := labels[key]; !found || got != value {
			return false
		}
	}
	return true
}

// object names an object as results do.
func object(kind, namespace, name string) string { return kind + " " + namespace + "/" + name }
