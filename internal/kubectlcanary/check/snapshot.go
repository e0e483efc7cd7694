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
	proxies    proxySnapshot
	// plugins are those of the routers that are looked at.
	plugins []pluginSnapshot
	gateway gatewaySnapshot
	steps   stepSnapshot
	agent   agentSnapshot
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
	// configNamespace is where the controller reads its ConfigMap.
	configNamespace string

	config read[*corev1.ConfigMap]
	// now is when the pods were read.
	now   time.Time
	pods  read[[]corev1.Pod]
	nodes map[string]read[corev1.Node]
}

// pluginSnapshot is a plugin of this project that is looked at.
type pluginSnapshot struct {
	// name is the one under which Rollouts use the plugin, and list the key of
	// argo-rollouts-config that has to register it.
	name, list string
	// access says which access the plugin needs, and whether the controller's
	// ServiceAccount has it.
	access []access
	// download is nil unless it was asked for and there is something to fetch.
	download *downloaded
}

// namespaceSnapshot is what the Rollouts' namespace holds.
type namespaceSnapshot struct {
	rollouts read[[]v1alpha1.Rollout]
	// unreadable says, by name, why a Rollout cannot be read as one.
	unreadable        map[string]error
	httpScaledObjects read[[]httpScaledObject]
	scaledObjects     read[[]scaledObject]
	services          read[[]corev1.Service]
	endpointSlices    read[[]endpointSlice]
	replicaSets       read[[]replicaSet]
	// events are those of the reason TrafficRoutingError. They only explain what checks find,
	// so that not being allowed to read them is no finding.
	events []corev1.Event
}

// httpScaledObject is the part of an HTTPScaledObject that the checks read.
type httpScaledObject struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
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

// allRollouts tells whether all Rollouts are known.
func (n namespaceSnapshot) allRollouts() bool { return n.rollouts.Err == nil && len(n.unreadable) == 0 }

func (n namespaceSnapshot) rollout(name string) *v1alpha1.Rollout {
	return first(n.rollouts.Value, func(ro *v1alpha1.Rollout) bool { return ro.Name == name })
}

func (n namespaceSnapshot) httpScaledObject(name string) *httpScaledObject {
	return first(n.httpScaledObjects.Value, func(o *httpScaledObject) bool { return o.Name == name })
}

func (n namespaceSnapshot) service(name string) *corev1.Service {
	return first(n.services.Value, func(service *corev1.Service) bool { return service.Name == name })
}

// replicaSet returns the ReplicaSet of a Rollout (or of its Experiments) with a
// pod template hash.
func (n namespaceSnapshot) replicaSet(hash string) *replicaSet {
	return first(n.replicaSets.Value, func(rs *replicaSet) bool {
		return hash != "" && rs.Labels[v1alpha1.DefaultRolloutUniqueLabelKey] == hash
	})
}

// first returns the first item of a list that matches, or nil.
func first[T any](list []T, matches func(*T) bool) *T {
	for i := range list {
		if matches(&list[i]) {
			return &list[i]
		}
	}
	return nil
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
