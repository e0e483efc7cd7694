package main

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

// subject is a plugin to measure.
type subject struct {
	// name is that of the part, and path that of the build as released.
	name, path string
	// slow is the path of a build that client-go throttles, which slowly describes.
	slow, slowly string
	// resource is that of the objects that the plugin writes, and what is their name in
	// output; object makes the object of a given name.
	what     string
	resource schema.GroupVersionResource
	object   func(name string) *unstructured.Unstructured
	// status, if set, is a patch to the status of the objects that are reconciled.
	status string
	// rollouts is how many objects have a Rollout in the cluster. The plugins watch
	// Rollouts, and clean up after Rollouts that do not exist.
	rollouts int
	// configuration is the plugin's in the Rollout of a given name.
	configuration func(name string) string
	// mostMemory is the bar, in MB.
	mostMemory float64
}

// kedify is the router kedify/http, with HTTPScaledObjects as large as those that
// the agent generates from ScaledObjects.
func kedify(path, throttled string) subject {
	return subject{
		name: "kedify", path: path, slow: throttled, slowly: "throttled as client-go does by default",
		what: "HTTPScaledObjects", resource: cluster.HTTPScaledObjectGVR, rollouts: manyObjects, mostMemory: 45,
		configuration: func(name string) string { return `{"kedify/http": {"httpScaledObjectName": "` + name + `"}}` },
		object: func(name string) *unstructured.Unstructured {
			return gauge.Object(`
apiVersion: http.keda.sh/v1alpha1
kind: HTTPScaledObject
metadata:
  name: %[1]s
  labels: {app.kubernetes.io/name: %[1]s, app.kubernetes.io/part-of: shop, app.kubernetes.io/managed-by: argocd}
  annotations:
    httpscaledobject.keda.sh/skip-scaledobject-creation: "true"
    argocd.argoproj.io/tracking-id: shop:http.keda.sh/HTTPScaledObject:bench/%[1]s
spec:
  hosts: [%[1]s.example.com]
  pathPrefixes: [/]
  scaleTargetRef: {apiVersion: argoproj.io/v1alpha1, kind: Rollout, name: %[1]s, service: %[1]s-stable, port: 80}
  replicas: {min: 2, max: 10}
  scalingMetric: {requestRate: {targetValue: 5, window: 1m, granularity: 1s}}`, name)
		},
	}
}

// gatewayAPI is the router of Gateway API routes, with an HTTPRoute for each Rollout.
func gatewayAPI(path, rewriting string) subject {
	return subject{
		name: "gatewayapi", path: path, slow: rewriting, slowly: "reads and updates at each call, throttled",
		what: "HTTPRoutes of 3 KiB", rollouts: objects, mostMemory: 60,
		resource:      schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"},
		configuration: func(name string) string { return `{"argoproj-labs/gatewayAPI": {"httpRoute": "` + name + `"}}` },
		object:        httpRoute,
		status:        acceptedForGood,
	}
}

// acceptedForGood is a patch to a status in which the Gateway accepts future generations, too:
// the speed of a gateway is not measured here.
const acceptedForGood = `{"status": {"parents": [{
	"parentRef": {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "public"},
	"controllerName": "bench.example.com/gateway",
	"conditions": [
		{"type": "Accepted", "status": "True", "reason": "Accepted", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1000000000},
		{"type": "ResolvedRefs", "status": "True", "reason": "ResolvedRefs", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1000000000}
	]}]}}`

// routeRules is how many rules it takes for an HTTPRoute of 3 KiB as JSON, without the
// fields that the API server adds.
const routeRules = 9

// httpRoute is an HTTPRoute whose rules are all split.
func httpRoute(name string) *unstructured.Unstructured {
	// Paths that have little in common, as this matters for compression.
	seed := fnv.New64()
	_, _ = seed.Write([]byte(name))
	random := rand.New(rand.NewPCG(seed.Sum64(), 0))
	word := func() string { return strconv.FormatUint(random.Uint64(), 36) }
	var rules strings.Builder
	for range routeRules {
		fmt.Fprintf(&rules, `
    - matches: [{path: {type: PathPrefix, value: /%[2]s/%[3]s}}]
      backendRefs:
        - {group: "", kind: Service, name: %[1]s-stable, port: 80, weight: 100}
        - {group: "", kind: Service, name: %[1]s-canary, port: 80, weight: 0}`, name, word(), word())
	}
	return gauge.Object(`
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  name: %[1]s
  labels: {app.kubernetes.io/name: %[1]s, app.kubernetes.io/part-of: shop}
  annotations: {argocd.argoproj.io/tracking-id: shop:gateway.networking.k8s.io/HTTPRoute:bench/%[1]s}
spec:
  parentRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: public}]
  hostnames: [%[1]s.example.com]
  rules: %[2]s`, name, rules.String())
}
