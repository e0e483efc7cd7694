package argorollouts

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
)

func configMapWith(data map[string]any) *unstructured.Unstructured {
	object := map[string]any{"kind": "ConfigMap", "metadata": map[string]any{"name": configMap}}
	if data != nil {
		object["data"] = data
	}
	return &unstructured.Unstructured{Object: object}
}

// Several plugins are registered beside one another.
func TestRegister(t *testing.T) {
	config := configMapWith(nil)
	c := &addon.Cluster{Before: []addon.Manifests{{Namespace: Namespace, Objects: []*unstructured.Unstructured{config}}}}
	for _, data := range []map[string]any{
		{"trafficRouterPlugins": "- name: a/b\n  location: x\n"},
		{"trafficRouterPlugins": "- {name: c/d, location: z}\n", "stepPlugins": "- name: e/f\n"},
	} {
		if err := Register(c, configMapWith(data)); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]any{
		"trafficRouterPlugins": "- location: x\n  name: a/b\n- location: z\n  name: c/d\n",
		"stepPlugins":          "- name: e/f\n",
	}
	if diff := cmp.Diff(want, config.Object["data"]); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
	if err := Register(c, configMapWith(map[string]any{"stepPlugins": "name: no list"})); err == nil || !strings.Contains(err.Error(), "data.stepPlugins") {
		t.Errorf("no list: %v", err)
	}
	if err := Register(&addon.Cluster{}, config); err == nil || !strings.Contains(err.Error(), configMap) {
		t.Errorf("without Argo Rollouts: %v", err)
	}
}
