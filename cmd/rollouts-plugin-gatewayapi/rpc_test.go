package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/plugintest"
)

const group, httpRoutes = "gateway.networking.k8s.io", "httproutes"

var succeed = plugintest.Succeed

func rollout() *v1alpha1.Rollout {
	ro := &v1alpha1.Rollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "app"},
		Spec: v1alpha1.RolloutSpec{Strategy: v1alpha1.RolloutStrategy{Canary: &v1alpha1.CanaryStrategy{
			StableService: "app-stable", CanaryService: "app-canary",
			TrafficRouting: &v1alpha1.RolloutTrafficRouting{
				ManagedRoutes: []v1alpha1.MangedRoutes{{Name: "beta"}, {Name: "shadow"}},
				Plugins:       map[string]json.RawMessage{"acme/gateway": json.RawMessage(`{"httpRoute": "app", "configMap": "x"}`)},
			},
		}}},
	}
	ro.Status.StableRS, ro.Status.CurrentPodHash = "old", "new"
	return ro
}

func object(name string, weights ...int) map[string]any {
	refs := []any{}
	for i, service := range []string{"app-stable", "app-canary"} {
		refs = append(refs, map[string]any{"name": service, "port": 80, "weight": weights[i]})
	}
	return map[string]any{
		"apiVersion": group + "/v1", "kind": "HTTPRoute", "metadata": map[string]any{"namespace": "demo", "name": name},
		"spec": map[string]any{"parentRefs": []any{map[string]any{"name": "public"}}, "rules": []any{map[string]any{"backendRefs": refs}}},
	}
}

// Every call over the RPC of the controller, in the order of a canary.
func TestOverRPC(t *testing.T) {
	server := apiservertest.New(t)
	server.Serve(group, apiservertest.Version{Name: "v1", Kinds: map[string]string{"HTTPRoute": httpRoutes}})
	server.PutObject(httpRoutes, object("app", 1, 0))
	router, stderr := plugintest.Start(t, installed, server.Kubeconfig(), "-kubeClientQPS", "50")
	ro := rollout()
	if name := router.Type(); name != "acme/gateway" {
		t.Errorf("Type() = %q", name)
	}
	header := &v1alpha1.SetHeaderRoute{Name: "beta", Match: []v1alpha1.HeaderRoutingMatch{{HeaderName: "X-Beta", HeaderValue: &v1alpha1.StringMatch{Prefix: "v1."}}}}
	mirror := &v1alpha1.SetMirrorRoute{Name: "shadow", Match: []v1alpha1.RouteMatch{{Method: &v1alpha1.StringMatch{Exact: "GET"}}}}

	succeed(t, router.RemoveManagedRoutes(ro))
	succeed(t, router.UpdateHash(ro, "new", "old", nil))
	succeed(t, router.SetWeight(ro, 0, nil))
	requireRoute(t, server, `"weight":1`, `"weight":0`)
	succeed(t, router.SetHeaderRoute(ro, header))
	requireRoute(t, server, `"name":"X-Beta"`, `v1\\.`)
	succeed(t, router.SetWeight(ro, 20, nil))
	requireRoute(t, server, `"weight":80`, `"weight":20`, `"name":"X-Beta"`, `rollouts.argoproj.io/gatewayapi-canary`)
	got, err := router.VerifyWeight(ro, 20, nil)
	succeed(t, err)
	if got != types.NotVerified {
		t.Errorf("VerifyWeight = %d before anybody reports", got)
	}
	succeed(t, router.SetMirrorRoute(ro, mirror))
	requireRoute(t, server, `"requestMirror"`)
	succeed(t, router.SetMirrorRoute(ro, &v1alpha1.SetMirrorRoute{Name: "shadow"}))
	succeed(t, router.RemoveManagedRoutes(ro))
	requireRoute(t, server, `"weight":80`, `"weight":20`)
	succeed(t, router.SetWeight(ro, 101, nil)) // with an Event
	requireRoute(t, server, `"weight":80`, `"weight":20`)
	succeed(t, router.SetWeight(ro, 0, nil))
	requireRoute(t, server, `"weight":1`, `"weight":0`)
	if got, err := router.VerifyWeight(ro, 0, nil); err.HasError() || got != types.Verified {
		t.Errorf("VerifyWeight(0) = %d, %v", got, err)
	}
	for _, line := range []string{"a flag of argoproj-labs/gatewayAPI is ignored", "kubeClientQPS", "configMap is ignored", "route changed"} {
		if !strings.Contains(stderr.String(), line) {
			t.Errorf("the log lacks %q:\n%s", line, stderr)
		}
	}
}

// The flag of argoproj-labs/gatewayAPI names the kubeconfig file, whatever KUBECONFIG says.
func TestKubeconfigFlag(t *testing.T) {
	for title, args := range map[string]func(file string) []string{
		"one dash":   func(file string) []string { return []string{"-kubeconfig", file} },
		"two dashes": func(file string) []string { return []string{"--kubeconfig=" + file} },
	} {
		t.Run(title, func(t *testing.T) {
			server := apiservertest.New(t)
			server.Serve(group, apiservertest.Version{Name: "v1", Kinds: map[string]string{"HTTPRoute": httpRoutes}})
			server.PutObject(httpRoutes, object("app", 1, 0))
			file := filepath.Join(t.TempDir(), "config")
			if err := os.WriteFile(file, []byte(server.Kubeconfig()), 0o600); err != nil {
				t.Fatal(err)
			}
			router, _ := plugintest.Start(t, installed, "not a kubeconfig", args(file)...)
			succeed(t, router.SetWeight(rollout(), 20, nil))
			requireRoute(t, server, `"weight":80`, `"weight":20`)
		})
	}
}

// requireRoute waits until the API server's route holds these texts.
func requireRoute(t *testing.T, server *apiservertest.Server, parts ...string) {
	t.Helper()
	var text []byte
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		text, _ = json.Marshal(server.Object(httpRoutes, "demo", "app"))
		missing := ""
		for _, part := range parts {
			if !strings.Contains(string(text), part) {
				missing = part
			}
		}
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the route lacks %q:\n%s", missing, text)
		}
	}
}
