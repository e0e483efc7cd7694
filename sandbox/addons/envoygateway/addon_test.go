package envoygateway

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
)

// helmScript prints two definitions and a Deployment for any chart, and writes down its
// arguments.
const helmScript = `#!/bin/sh
echo "$@" >"$0.arguments"
cat <<'EOF'
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gateways.gateway.networking.k8s.io}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: envoyproxies.gateway.envoyproxy.io}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: envoy-gateway}
EOF
`

// Gateway API definitions that a sandbox was asked for stay, without the chart's policy
// that protects its own; without such definitions, the chart's are applied.
func TestDefinitionsOfTheGatewayAPI(t *testing.T) {
	script := filepath.Join(t.TempDir(), "helm")
	if err := os.WriteFile(script, []byte(helmScript), 0o700); err != nil {
		t.Fatal(err)
	}
	asked := &unstructured.Unstructured{Object: map[string]any{
		"kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "gateways.gateway.networking.k8s.io"},
	}}
	own := []string{"envoyproxies.gateway.envoyproxy.io", "envoy-gateway", Namespace, Class, Gateway, Gateway}
	for name, tc := range map[string]struct {
		before []*unstructured.Unstructured
		want   []string
		policy string
	}{
		"none asked for": {nil, append([]string{"gateways.gateway.networking.k8s.io"}, own...), "true"},
		"asked for":      {[]*unstructured.Unstructured{asked}, own, "false"},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := objects(t.Context(), &addon.Cluster{
				Paths: addon.Paths{helm: script, chart: "chart"}, Before: []addon.Manifests{{Objects: tc.before}},
			})
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
			arguments, err := os.ReadFile(script + ".arguments")
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(arguments), "crds.gatewayAPI.safeUpgradePolicy.enabled="+tc.policy) {
				t.Errorf("want the policy %s in: helm %s", tc.policy, arguments)
			}
		})
	}
}
