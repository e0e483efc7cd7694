package main

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
)

// routeSize is how large an HTTPRoute is as JSON, without the fields that the API
// server adds.
const routeSize = 3 << 10

// gatewayAPI is the router of Gateway API routes, with an HTTPRoute for each Rollout.
func gatewayAPI(plugin, idle, rewriting string) subject {
	return subject{
		name: gatewayAPIName, plugin: plugin, idle: idle, slow: rewriting, slowly: "reads and updates at each call, throttled",
		what: "HTTPRoutes of 3 KiB", resource: schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"},
		rollouts: objects, mostMemory: 60, mostSize: 28,
		configuration: func(name string) map[string]json.RawMessage {
			return map[string]json.RawMessage{"argoproj-labs/gatewayAPI": json.RawMessage(`{"httpRoute":"` + name + `"}`)}
		},
		object: httpRoute,
		status: acceptedForGood(),
	}
}

// httpRoute is an HTTPRoute whose rules are all split, with as many paths as it
// takes to reach routeSize.
func httpRoute(name string) *unstructured.Unstructured {
	// Names and paths that have little in common, as this matters for compression.
	seed := fnv.New64()
	_, _ = seed.Write([]byte(name))
	random := rand.New(rand.NewPCG(seed.Sum64(), 0))
	word := func() string { return strconv.FormatUint(random.Uint64(), 36) }
	route := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "gateway.networking.k8s.io/v1",
		"kind":       "HTTPRoute",
		"metadata": map[string]any{
			"name":        name,
			"namespace":   gauge.Namespace,
			"labels":      map[string]any{"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "shop"},
			"annotations": map[string]any{"argocd.argoproj.io/tracking-id": "shop:gateway.networking.k8s.io/HTTPRoute:bench/" + name},
		},
		"spec": map[string]any{
			"parentRefs": []any{map[string]any{"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "public"}},
			"hostnames":  []any{name + ".example.com"},
		},
	}}
	backend := func(service string, weight int64) any {
		return map[string]any{"group": "", "kind": "Service", "name": service, "port": int64(80), "weight": weight}
	}
	var rules []any
	for size := 0; size < routeSize-150; {
		rules = append(rules, map[string]any{
			"matches":     []any{map[string]any{"path": map[string]any{"type": "PathPrefix", "value": "/" + word() + "/" + word()}}},
			"backendRefs": []any{backend(name+"-stable", 100), backend(name+"-canary", 0)},
		})
		route.Object["spec"].(map[string]any)["rules"] = rules
		text, err := json.Marshal(route.Object)
		if err != nil {
			panic(fmt.Sprintf("HTTPRoute %s: %v", name, err)) // cannot fail: it has only strings and numbers
		}
		size = len(text)
	}
	return route
}

// acceptedForGood is a status in which the Gateway accepts future generations, too:
// the speed of a gateway is not measured here.
func acceptedForGood() map[string]any {
	condition := func(kind string) any {
		return map[string]any{
			"type": kind, "status": "True", "reason": "Accepted", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": int64(1e9),
		}
	}
	return map[string]any{"parents": []any{map[string]any{
		"parentRef":      map[string]any{"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "public"},
		"controllerName": "bench.example.com/gateway",
		"conditions":     []any{condition("Accepted"), condition("ResolvedRefs")},
	}}}
}
