package keda

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
)

const install = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: scaledobjects.keda.sh}
spec: {from: KEDA}
---
apiVersion: v1
kind: Namespace
metadata: {name: keda, labels: {a: b}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: keda-operator, namespace: keda}
`

// A sandbox with KEDA has the definition of ScaledObjects once, from KEDA's release,
// and a namespace that admits only restricted pods.
func TestObjects(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "install.yaml"), []byte(install), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, before := range map[string]*unstructured.Unstructured{
		"alone": nil,
		"after the definition": {Object: map[string]any{
			"kind": "CustomResourceDefinition", "metadata": map[string]any{"name": definition}, "spec": map[string]any{"from": "another release"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c := &addon.Cluster{Paths: addon.Paths{manifests: dir}}
			if before != nil {
				c.Before = []addon.Manifests{{Objects: []*unstructured.Unstructured{before}}}
			}
			own, err := objects(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			c.Before = append(c.Before, own...)
			count := 0
			for _, m := range c.Before {
				count += len(m.Objects)
			}
			if count != 3 {
				t.Errorf("%d objects in all, want the definition once, the namespace and the Deployment", count)
			}
			from, _, _ := unstructured.NestedString(c.Find("CustomResourceDefinition", "", definition).Object, "spec", "from")
			if from != "KEDA" {
				t.Errorf("the definition is from %s", from)
			}
			want := map[string]string{"a": "b", "pod-security.kubernetes.io/enforce": "restricted"}
			if diff := cmp.Diff(want, c.Find("Namespace", "", Namespace).GetLabels()); diff != "" {
				t.Errorf("labels of the namespace (-want +got):\n%s", diff)
			}
		})
	}
}
