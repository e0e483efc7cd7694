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

// ParseClusterName splits the name of a backend into its parts; ok is false for a text
// that ClusterName does not return for valid Kubernetes names.
func ParseClusterName(cluster string) (object types.NamespacedName, service string, ok bool) {
	namespace, rest, _ := strings.Cut(cluster, "/")
	name, service, _ := strings.Cut(rest, "/")
	if namespace == "" || name == "" || service == "" || strings.Contains(service, "/") {
		return types.NamespacedName{}, "", false
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, service, true
}
