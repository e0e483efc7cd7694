package main

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

// kedify is the router kedify/http, with HTTPScaledObjects as large as those that
// the agent generates from ScaledObjects.
func kedify(plugin, idle, throttled string) subject {
	return subject{
		name: kedifyName, plugin: plugin, idle: idle, slow: throttled, slowly: "throttled as client-go does",
		what: "HTTPScaledObjects", resource: cluster.HTTPScaledObjectGVR, rollouts: manyObjects, mostMemory: 45, mostSize: 28,
		configuration: func(name string) map[string]json.RawMessage {
			return map[string]json.RawMessage{"kedify/http": json.RawMessage(`{"httpScaledObjectName":"` + name + `"}`)}
		},
		object: func(name string) *unstructured.Unstructured {
			return &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "http.keda.sh/v1alpha1",
				"kind":       "HTTPScaledObject",
				"metadata": map[string]any{
					"name":      name,
					"namespace": gauge.Namespace,
					"labels": map[string]any{
						"app.kubernetes.io/name":       name,
						"app.kubernetes.io/part-of":    "shop",
						"app.kubernetes.io/managed-by": "argocd",
					},
					"annotations": map[string]any{
						"httpscaledobject.keda.sh/skip-scaledobject-creation": "true",
						"argocd.argoproj.io/tracking-id":                      "shop:http.keda.sh/HTTPScaledObject:bench/" + name,
					},
				},
				"spec": map[string]any{
					"hosts":          []any{name + ".example.com"},
					"pathPrefixes":   []any{"/"},
					"scaleTargetRef": map[string]any{"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": name, "service": name + "-stable", "port": int64(80)},
					"replicas":       map[string]any{"min": int64(2), "max": int64(10)},
					"scalingMetric":  map[string]any{"requestRate": map[string]any{"targetValue": int64(5), "window": "1m", "granularity": "1s"}},
				},
			}}
		},
	}
}
