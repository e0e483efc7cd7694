package routes

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// ClusterName returns the name of a backend in Envoy and in metrics,
// <namespace>/<HTTPScaledObject>/<Service>.
func ClusterName(object types.NamespacedName, service string) string {
	return object.Namespace + "/" + object.Name + "/" + service
}

// ParseClusterName takes the name of a backend apart; ok is false for what
// ClusterName does not return for names of Kubernetes.
func ParseClusterName(cluster string) (object types.NamespacedName, service string, ok bool) {
	namespace, rest, _ := strings.Cut(cluster, "/")
	name, service, _ := strings.Cut(rest, "/")
	if namespace == "" || name == "" || service == "" || strings.Contains(service, "/") {
		return types.NamespacedName{}, "", false
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, service, true
}
