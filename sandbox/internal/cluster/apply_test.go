package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
)

func TestRounds(t *testing.T) {
	var objects []*unstructured.Unstructured
	for _, kind := range []string{"Deployment", "ConfigMap", "CustomResourceDefinition", "ClusterRole", "Namespace", "Pod"} {
		objects = append(objects, &unstructured.Unstructured{Object: map[string]any{"kind": kind}})
	}
	var got [3][]string
	for i, round := range rounds([]addon.Manifests{{Objects: objects}}) {
		for _, o := range round {
			got[i] = append(got[i], o.GetKind())
		}
	}
	want := [3][]string{{"CustomResourceDefinition", "Namespace"}, {"ConfigMap", "ClusterRole"}, {"Deployment", "Pod"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCheckDistinct(t *testing.T) {
	object := func(kind, namespace, name string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind}}
		o.SetNamespace(namespace)
		o.SetName(name)
		return o
	}
	first := addon.Manifests{Namespace: "a", Objects: []*unstructured.Unstructured{object("ConfigMap", "", "x")}}
	for name, tc := range map[string]struct {
		second addon.Manifests
		refuse bool
	}{
		"another name":      {addon.Manifests{Namespace: "a", Objects: []*unstructured.Unstructured{object("ConfigMap", "", "y")}}, false},
		"another kind":      {addon.Manifests{Namespace: "a", Objects: []*unstructured.Unstructured{object("Secret", "", "x")}}, false},
		"another namespace": {addon.Manifests{Namespace: "b", Objects: []*unstructured.Unstructured{object("ConfigMap", "", "x")}}, false},
		"the same":          {addon.Manifests{Namespace: "b", Objects: []*unstructured.Unstructured{object("ConfigMap", "a", "x")}}, true},
	} {
		if err := checkDistinct([]addon.Manifests{first, tc.second}); (err != nil) != tc.refuse {
			t.Errorf("%s: %v", name, err)
		}
	}
}
