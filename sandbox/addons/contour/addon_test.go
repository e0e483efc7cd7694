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
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: contour}
spec: {template: {spec: {containers: [{name: contour, args: [serve]}]}}}
`

// Gateway API definitions that a sandbox was asked for stay, and Contour does not
// use kinds that they lack; without such definitions, Contour's own are applied.
func TestDefinitionsOfTheGatewayAPI(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, example), []byte(install), 0o600); err != nil {
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
		before    []*unstructured.Unstructured
		want      []string
		arguments []string
	}{
		"none asked for": {
			nil,
			[]string{"gateways.gateway.networking.k8s.io", "httpproxies.projectcontour.io", "contour", "contour"},
			[]string{"serve"},
		},
		"standard": {
			[]*unstructured.Unstructured{definition("gateways", "v1"), definition("grpcroutes", "v1")},
			[]string{"httpproxies.projectcontour.io", "contour", "contour"},
			[]string{"serve", "--disable-feature=backendtlspolicies", "--disable-feature=tcproutes", "--disable-feature=tlsroutes"},
		},
		"in later versions": {
			[]*unstructured.Unstructured{definition("gateways", "v1"), definition("grpcroutes", "v1"), definition("tcproutes", "v1alpha2"),
				definition("tlsroutes", "v1beta1"), definition("backendtlspolicies", "v1")},
			[]string{"httpproxies.projectcontour.io", "contour", "contour"},
			[]string{"serve", "--disable-feature=backendtlspolicies", "--disable-feature=tlsroutes"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := objects(t.Context(), &addon.Cluster{Paths: addon.Paths{manifests: dir}, Before: []addon.Manifests{{Objects: tc.before}}})
			if err != nil {
				t.Fatal(err)
			}
			var got, arguments []string
			for _, m := range all {
				for _, o := range m.Objects {
					got = append(got, o.GetName())
					if o.GetKind() == "Deployment" {
						containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
						arguments, _, _ = unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
					}
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("applied (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.arguments, arguments); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
		})
	}
}
