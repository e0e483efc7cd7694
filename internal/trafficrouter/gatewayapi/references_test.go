package gatewayapi

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// A route's references have the CRD's defaults, and each is returned once; splits are
// returned only for rules that are split.
func TestReferences(t *testing.T) {
	var route unstructured.Unstructured
	if err := json.Unmarshal([]byte(`{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "a", "namespace": "shop"}, "spec": {
  "parentRefs": [{"name": "own"}, {"name": "public", "namespace": "infra", "sectionName": "http"}, {"name": "public", "namespace": "infra"}, {"kind": "Service", "group": "", "name": "mesh"}],
  "rules": [
    {"name": "api", "backendRefs": [{"name": "stable", "port": 80, "weight": 9}, {"name": "canary", "port": 80, "weight": 0}]},
    {"backendRefs": [{"name": "stable", "port": 80}, {"name": "other", "namespace": "legal", "port": 80}]},
    {"backendRefs": [{"name": "canary", "port": 80}, {"name": "stable", "port": 80}]}]}}`), &route.Object); err != nil {
		t.Fatal(err)
	}
	service := func(namespace, name string) Backend {
		return Backend{Kind: "Service", Namespace: namespace, Name: name, Port: 80}
	}
	if diff := cmp.Diff([]Backend{service("shop", "stable"), service("shop", "canary"), service("legal", "other")}, BackendsOf(&route)); diff != "" {
		t.Errorf("backends (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]types.NamespacedName{{Namespace: "shop", Name: "own"}, {Namespace: "infra", Name: "public"}}, GatewaysOf(&route)); diff != "" {
		t.Errorf("Gateways (-want +got):\n%s", diff)
	}
	ro := Rollout{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "a"}, Stable: "stable", Canary: "canary"}
	if diff := cmp.Diff([]Split{{`rule "api"`, 9, 0}, {"rule 2", 1, 1}}, SplitsOf(&route, ro)); diff != "" {
		t.Errorf("splits (-want +got):\n%s", diff)
	}
	ro.Rules = []string{"api"}
	if diff := cmp.Diff([]Split{{`rule "api"`, 9, 0}}, SplitsOf(&route, ro)); diff != "" {
		t.Errorf("splits of one rule (-want +got):\n%s", diff)
	}
}

// A configuration is recognised by its route keys, whatever else is in it.
func TestIsConfig(t *testing.T) {
	for text, want := range map[string]bool{
		`{"httpRoute": "a"}`: true, `{"HTTPROUTES": 1, "x": 2}`: true, `{"udpRouteSelector": null}`: true,
		`{"namespace": "a"}`: false, `{"httpScaledObjectName": "a"}`: false, `{}`: false, `null`: false, `[`: false,
	} {
		if got := IsConfig(json.RawMessage(text)); got != want {
			t.Errorf("IsConfig(%s) = %t", text, got)
		}
	}
}
