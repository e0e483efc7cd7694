package envoygateway

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
)

// The chart brings the policy that protects its own definitions of the Gateway API only
// without others that a sandbox was asked for.
func TestPolicy(t *testing.T) {
	script := filepath.Join(t.TempDir(), "helm")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho \"$@\" >\"$0.arguments\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	asked := &unstructured.Unstructured{Object: map[string]any{
		"kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "gateways.gateway.networking.k8s.io"},
	}}
	for policy, before := range map[string][]*unstructured.Unstructured{"true": nil, "false": {asked}} {
		_, err := objects(t.Context(), &addon.Cluster{
			Paths: addon.Paths{helm: script, chart: "chart"}, Before: []addon.Manifests{{Objects: before}},
		})
		if err != nil {
			t.Fatal(err)
		}
		arguments, err := os.ReadFile(script + ".arguments")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(arguments), "crds.gatewayAPI.safeUpgradePolicy.enabled="+policy) {
			t.Errorf("want the policy %s in: helm %s", policy, arguments)
		}
	}
}
