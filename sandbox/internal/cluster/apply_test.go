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
