package contour

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
)

const install = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: contour}
spec: {template: {spec: {containers: [{name: contour, args: [serve]}]}}}
`

// Contour uses all kinds that its own definitions of the Gateway API have; of others that a
// sandbox was asked for, it does not use the kinds that these lack.
func TestFeatures(t *testing.T) {
	file := filepath.Join(t.TempDir(), example)
	if err := os.WriteFile(file, []byte(install), 0o600); err != nil {
		t.Fatal(err)
	}
	definition := func(resource string, versions ...string) *unstructured.Unstructured {
		var list []any
		for _, v := range versions {
			list = append(list, map[string]any{"name": v, "served": v != "v1beta1"})
		}
		return &unstructured.Unstructured{Object: map[string]any{
			"kind": "CustomResourceDefinition", "metadata": map[string]any{"name": resource + ".gateway.networking.k8s.io"},
			"spec": map[string]any{"versions": list},
		}}
	}
	for name, tc := range map[string]struct {
		before []*unstructured.Unstructured
		want   []string
	}{
		"none asked for": {nil, []string{"serve"}},
		"standard": {
			[]*unstructured.Unstructured{definition("gateways", "v1"), definition("grpcroutes", "v1")},
			[]string{"serve", "--disable-feature=backendtlspolicies", "--disable-feature=tcproutes", "--disable-feature=tlsroutes"},
		},
		"in later versions": {
			[]*unstructured.Unstructured{definition("gateways", "v1"), definition("grpcroutes", "v1"), definition("tcproutes", "v1alpha2"),
				definition("tlsroutes", "v1beta1"), definition("backendtlspolicies", "v1")},
			[]string{"serve", "--disable-feature=backendtlspolicies", "--disable-feature=tlsroutes"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := objects(t.Context(), &addon.Cluster{Paths: addon.Paths{manifests: file}, Before: []addon.Manifests{{Objects: tc.before}}})
			if err != nil {
				t.Fatal(err)
			}
			containers, _, _ := unstructured.NestedSlice(all[0].Objects[0].Object, "spec", "template", "spec", "containers")
			got, _, _ := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
		})
	}
}
