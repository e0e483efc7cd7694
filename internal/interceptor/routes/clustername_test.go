package routes

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestClusterNames(t *testing.T) {
	object := types.NamespacedName{Namespace: "demo", Name: "app"}
	name := ClusterName(object, "canary")
	if got, service, ok := ParseClusterName(name); !ok || got != object || service != "canary" {
		t.Errorf("%s is of %v, Service %q, %v", name, got, service, ok)
	}
	for _, none := range []string{"", "demo", "demo/app", "demo/app/", "/app/canary", "demo//canary", "demo/app/canary/", "xds_cluster"} {
		if object, service, ok := ParseClusterName(none); ok {
			t.Errorf("%q is taken as that of %v, Service %q", none, object, service)
		}
	}
}
