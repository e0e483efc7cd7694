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
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gateways.gateway.networking.k8s.io}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: httpproxies.projectcontour.io}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: contour}
`

// The definitions of the Gateway API that a sandbox was asked for stay; without
// any, Contour's own are applied.
func TestDefinitionsOfTheGatewayAPI(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, example), []byte(install), 0o600); err != nil {
		t.Fatal(err)
	}
	asked := unstructured.Unstructured{Object: map[string]any{
		"kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "gateways.gateway.networking.k8s.io"},
	}}
	for name, tc := range map[string]struct {
		before []addon.Manifests
		want   []string
	}{
		"none asked for": {nil, []string{"gateways.gateway.networking.k8s.io", "httpproxies.projectcontour.io", "contour"}},
		"asked for":      {[]addon.Manifests{{Objects: []*unstructured.Unstructured{&asked}}}, []string{"httpproxies.projectcontour.io", "contour"}},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := objects(t.Context(), &addon.Cluster{Paths: addon.Paths{manifests: dir}, Before: tc.before})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, m := range all {
				for _, o := range m.Objects {
					got = append(got, o.GetName())
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("applied (-want +got):\n%s", diff)
			}
		})
	}
}
