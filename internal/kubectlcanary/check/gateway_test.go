package check

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/gatewayapi"
)

const gatewayPluginList = `
- name: argoproj-labs/gatewayAPI
  location: https://github.com/kedify/argo-rollouts-plugin/releases/download/v0.2.0/gatewayapi-plugin-linux-amd64
  sha256: ` + sum + "\n"

// The route at a canary weight of 20 %, with one of its backends in another namespace.
const routeManifest = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  name: demo
  namespace: shop
  generation: 3
  labels: {rollouts.argoproj.io/gatewayapi-canary: in-progress}
spec:
  parentRefs: [{name: public, namespace: infra}]
  rules:
  - name: api
    matches: [{path: {type: PathPrefix, value: /}}]
    backendRefs: [{name: demo-stable, port: 80, weight: 100}, {name: demo-canary, port: 80, weight: 0}]
  - name: legal
    matches: [{path: {type: PathPrefix, value: /legal}}]
    backendRefs: [{name: imprint, namespace: legal, port: 80}]
status:
  parents:
  - parentRef: {group: gateway.networking.k8s.io, kind: Gateway, name: public, namespace: infra}
    controllerName: projectcontour.io/gateway-controller
    conditions:
    - {type: Accepted, status: "True", reason: Accepted, message: Accepted HTTPRoute, observedGeneration: 3, lastTransitionTime: "2026-11-21T09:00:00Z"}
    - {type: ResolvedRefs, status: "True", reason: ResolvedRefs, message: References resolved, observedGeneration: 3, lastTransitionTime: "2026-11-21T09:00:00Z"}
`

func routeOf(text string) unstructured.Unstructured {
	var route unstructured.Unstructured
	data, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = route.UnmarshalJSON(data)
	}
	if err != nil {
		panic(err)
	}
	return route
}

var routesOfShop = routesAt{gatewayapi.HTTPRoute, "shop"}

// healthyGateway is a cluster in the middle of a canary whose traffic enters through a
// Gateway, with nothing wrong.
func healthyGateway() snapshot {
	s := healthy()
	s.configData()[trafficRouterPlugins] = gatewayPluginList
	s.setPlugins(`{argoproj-labs/gatewayAPI: {httpRoute: demo, rules: [api]}}`)
	s.objects.httpScaledObjects = read[[]httpScaledObject]{Err: missingKind("httpscaledobjects.http.keda.sh")}
	s.objects.scaledObjects = read[[]scaledObject]{Err: missingKind("scaledobjects.keda.sh")}
	s.plugins = []pluginSnapshot{{name: gatewayapi.DefaultPluginName, list: trafficRouterPlugins, access: allGranted(gatewayNeeds("shop", "", []routesAt{routesOfShop}))}}
	route := routeOf(routeManifest)
	s.gateway = gatewaySnapshot{
		routes: map[routesAt]read[[]unstructured.Unstructured]{routesOfShop: {Value: []unstructured.Unstructured{route}}},
	}
	s.decide()
	return s
}

// setPlugins sets the Rollout's plugins.
func (s *snapshot) setPlugins(text string) {
	s.demo().Spec.Strategy.Canary.TrafficRouting = &v1alpha1.RolloutTrafficRouting{Plugins: parse[map[string]json.RawMessage](text)}
}

// route returns the Rollout's route.
func (s *snapshot) route() *unstructured.Unstructured {
	return &s.gateway.routes[routesOfShop].Value[0]
}

// decide changes the route as the router does for the Rollout's weights.
func (s *snapshot) decide() {
	for _, use := range gatewayUses(s.demo()) {
		for _, route := range routesUsed(*s, s.demo(), use) {
			if decision, known := decided(s.demo(), route); known {
				route.Object = decision.Route.Object
			}
		}
	}
}

// changeRoute replaces a text in the route.
func changeRoute(from, to string) func(s *snapshot) {
	return func(s *snapshot) {
		text, err := s.route().MarshalJSON()
		if err != nil || !strings.Contains(string(text), from) {
			panic("no " + from + " in " + string(text))
		}
		*s.route() = routeOf(strings.ReplaceAll(string(text), from, to))
	}
}

func all(changes ...func(s *snapshot)) func(s *snapshot) {
	return func(s *snapshot) {
		for _, change := range changes {
			change(s)
		}
	}
}

func withPlugins(text string) func(s *snapshot) {
	return func(s *snapshot) { s.setPlugins(text) }
}

func TestHealthyGatewayHasOnlyTicks(t *testing.T) {
	settled := healthyGateway()
	settled.settleGateway()
	disabled := healthyGateway()
	disabled.setPlugins(`{argoproj-labs/gatewayAPI: {httpRoute: demo, disableInProgressLabel: true}}`)
	disabled.decide()
	otherName := healthyGateway()
	otherName.configData()[trafficRouterPlugins] = strings.Replace(gatewayPluginList, "argoproj-labs/gatewayAPI", "acme/gateway", 1)
	otherName.setPlugins(`{acme/gateway: {HTTPROUTES: [{name: demo}]}}`)
	otherName.plugins[0].name = "acme/gateway"
	nearBy := healthyGateway() // another plugin whose name is like ours
	nearBy.setPlugins(`{argoproj-labs/gatewayAPI: {httpRoute: demo}, argoproj-labs/gateway-api: {x: 1}}`)
	for name, s := range map[string]snapshot{
		"a plugin of a like name": nearBy, "mid-canary": healthyGateway(), "settled": settled, "label disabled": disabled, "another name": otherName,
	} {
		t.Run(name, func(t *testing.T) {
			results := look(s)
			for _, result := range results {
				if result.Status != OK || result.Remedy != "" {
					t.Errorf("%+v", result)
				}
			}
			if len(results) < 15 {
				t.Errorf("only %d checks were made: %+v", len(results), results)
			}
		})
	}
}

// settleGateway ends the canary: everything on blue, the route at rest.
func (s *snapshot) settleGateway() {
	ro := s.demo()
	weights := &v1alpha1.TrafficWeights{
		Canary: v1alpha1.WeightDestination{PodTemplateHash: "blue", ServiceName: "demo-canary"},
		Stable: v1alpha1.WeightDestination{PodTemplateHash: "blue", ServiceName: "demo-stable", Weight: 100},
	}
	steps := int32(4)
	ro.Status.Phase, ro.Status.Message, ro.Status.CurrentPodHash, ro.Status.CurrentStepIndex = v1alpha1.RolloutPhaseHealthy, "", "blue", &steps
	ro.Status.Canary.Weights = weights
	*s.canary() = service("demo-canary", "blue")
	s.decide()
}

func TestGatewayFaults(t *testing.T) {
	const (
		route   = "HTTPRoute shop/demo"
		account = "ServiceAccount argo-rollouts/argo-rollouts"
		name    = "argoproj-labs/gatewayAPI"
	)
	one := func(check string, status Status, object string, says ...string) []finding {
		return []finding{{check, status, object, says}}
	}
	deny := func(resource string, verbs ...string) func(s *snapshot) {
		return func(s *snapshot) {
			for i := range s.plugins[0].access {
				if a := &s.plugins[0].access[i]; a.resource == resource && slices.Contains(verbs, a.verb) {
					a.allowed.Value = false
				}
			}
		}
	}
	testFaultsOf(t, healthyGateway, faults{
		// The plugin.
		"not registered, ReplicaSet at 0": {func(s *snapshot) {
			s.configData()[trafficRouterPlugins] = ""
			s.demo().Status.Canary.Weights, s.demo().Status.StableRS = nil, ""
			s.demo().Status.CurrentPodHash = "green"
			*s.stable(), *s.canary() = service("demo-stable", "green"), service("demo-canary", "green")
			s.objects.replicaSets.Value = []replicaSet{replicaSetOf("green", "0")}
			s.objects.endpointSlices.Value = nil
			*s.route() = routeOf(routeManifest)
			s.route().SetLabels(nil)
		}, []finding{
			{"plugin-registered", Failure, configMap, []string{"argoproj-labs/gatewayAPI is not registered under data.trafficRouterPlugins", "add the entry"}},
			{"backends-ready", Warning, "Service shop/demo-stable", []string{"ReplicaSet demo-green is at 0 replicas", "see rollout-health"}},
		}},
		"registered under another name": {func(s *snapshot) {
			s.configData()[trafficRouterPlugins] = strings.Replace(gatewayPluginList, name, "acme/gateway", 1)
		}, one("plugin-registered", Failure, configMap, `argoproj-labs/gatewayAPI is not registered under data.trafficRouterPlugins; there is "acme/gateway"`)},
		"for another platform": {func(s *snapshot) {
			s.configData()[trafficRouterPlugins] = strings.Replace(gatewayPluginList, "amd64", "arm64", 1)
		}, one("plugin-platform", Failure, configMap, "node node-1 is linux/amd64")},
		"neither patch nor update": {deny("httproutes.gateway.networking.k8s.io", "patch"),
			one("controller-access", Failure, account, "may not patch or update httproutes.gateway.networking.k8s.io in namespace shop, so no weight can be set", "deploy/gatewayapi")},
		"no watch": {deny("httproutes.gateway.networking.k8s.io", "watch", "list"),
			one("controller-access", Warning, account, "may not list, watch httproutes.gateway.networking.k8s.io in all namespaces", "what needs that does not work")},

		// The Rollout.
		"unknown key": {withPlugins(`{argoproj-labs/gatewayAPI: {httpRoute: demo, rule: [api]}}`),
			one("rollout-config", Failure, demo, `plugins["argoproj-labs/gatewayAPI"]: unknown key "rule" is ignored: did you mean "rules"?`)},
		"removed key": {withPlugins(`{argoproj-labs/gatewayAPI: {httpRoute: demo, configMap: gateway}}`),
			one("rollout-config", Warning, demo, "configMap is ignored")},
		"no route": {withPlugins(`{argoproj-labs/gatewayAPI: {namespace: shop}}`),
			one("rollout-config", Failure, demo, "no route is named: set httpRoute")},
		"no name of a plugin": {withPlugins(`{gatewayAPI: {httpRoute: demo}}`),
			one("rollout-config", Failure, demo, `plugins has no argoproj-labs/gatewayAPI, but "gatewayAPI"`, `move it to spec.strategy.canary.trafficRouting.plugins["argoproj-labs/gatewayAPI"]`)},
		"no router": {withPlugins(`{}`),
			one("rollout-router", Failure, demo, "trafficRouting has no router", "kubectl canary check -f MANIFEST")},

		// Its routes.
		"the CRD is missing": {func(s *snapshot) {
			s.gateway.routes[routesOfShop] = read[[]unstructured.Unstructured]{Err: missingKind("httproutes.gateway.networking.k8s.io")}
		}, one("route-exists", Failure, "Namespace shop", "does not serve HTTPRoutes (gateway.networking.k8s.io)")},
		"routes not to be read": {func(s *snapshot) {
			s.gateway.routes[routesOfShop] = read[[]unstructured.Unstructured]{Err: forbidden("list", "httproutes.gateway.networking.k8s.io", "shop", "")}
		}, one("route-exists", Warning, "Namespace shop", "need list on httproutes.gateway.networking.k8s.io in namespace shop")},
		"the route is missing": {withPlugins(`{argoproj-labs/gatewayAPI: {httpRoute: other}}`),
			one("route-exists", Failure, "HTTPRoute shop/other", "does not exist", "edit rollout demo")},
		"nothing selected": {withPlugins(`{argoproj-labs/gatewayAPI: {httpRouteSelector: {matchLabels: {app: demo}}}}`),
			one("route-exists", Failure, "Namespace shop", `there are no HTTPRoutes with labels "app=demo"`)},
		"no canary in a rule": {all(changeRoute(`"name":"demo-canary"`, `"name":"canary"`)),
			one("route-rules", Failure, route, "has both the stable Service demo-stable and the canary Service demo-canary")},
		"no such rule": {withPlugins(`{argoproj-labs/gatewayAPI: {httpRoute: demo, rules: [api, legal]}}`),
			one("route-rules", Failure, route, `has no rule named "legal" with both Services`)},
		"another Rollout's": {changeRoute(`shop/demo\":`, `elsewhere/other\":`),
			one("route-rules", Failure, route, "Rollout elsewhere/other")},
		"taken back": {changeRoute(`"weight":80`, `"weight":100`),
			one("route-split", Failure, route, `has rule "api" demo-stable=100,demo-canary=20, the Rollout's status says rule "api" demo-stable=80,demo-canary=20`, "docs/how-to/gitops.md", "--show-managed-fields")},
		"left by a Rollout that is gone": {func(s *snapshot) {
			left := s.route().DeepCopy()
			left.SetName("left")
			left.SetAnnotations(map[string]string{gatewayapi.Annotation: `{"shop/gone": {"rules": [{"hash": "x", "rest": {"a": 1}}]}, "elsewhere/other": {}}`})
			routes := s.gateway.routes[routesOfShop]
			routes.Value = append(routes.Value, *left)
			s.gateway.routes[routesOfShop] = routes
		}, one("route-split", Failure, "HTTPRoute shop/left", "carries the split of Rollout shop/gone, which does not exist", "kubectl -n shop edit httproute left", gatewayapi.Annotation)},
		"left by a Rollout that has moved": {func(s *snapshot) {
			moved := s.demo().DeepCopy()
			moved.Name = "moved"
			moved.Spec.Strategy.Canary.TrafficRouting = nil
			moved.Spec.Strategy.Canary.StableService, moved.Spec.Strategy.Canary.CanaryService = "moved-stable", "moved-canary"
			s.objects.rollouts.Value = append(s.objects.rollouts.Value, *moved)
			s.route().SetAnnotations(map[string]string{gatewayapi.Annotation: strings.TrimSuffix(s.route().GetAnnotations()[gatewayapi.Annotation], "}") + `, "shop/moved": {"routes": [{"name": "h"}]}}`})
		}, one("route-split", Failure, route, "carries the split of Rollout shop/moved, which does not exist, or does not use the Gateway API router any more")},
		"label taken off": {func(s *snapshot) { s.route().SetLabels(nil) },
			one("route-split", Warning, route, "lacks the label rollouts.argoproj.io/gatewayapi-canary=in-progress")},
		"label left behind": {func(s *snapshot) {
			s.settleGateway()
			s.route().SetLabels(map[string]string{gatewayapi.DefaultLabelKey: gatewayapi.DefaultLabelValue})
		}, one("route-split", Warning, route, "has the label rollouts.argoproj.io/gatewayapi-canary=in-progress", "take it off")},

		// Its parents.
		"refused": {changeRoute(`"status":"True","type":"Accepted"`, `"status":"False","type":"Accepted"`),
			one("route-parents", Failure, route, "Gateway infra/public (projectcontour.io/gateway-controller): refused, Accepted: Accepted HTTPRoute")},
		"one of its rules is broken": {changeRoute(`"status":"True","type":"ResolvedRefs"`, `"status":"False","type":"ResolvedRefs"`),
			one("route-parents", Failure, route, "Gateway infra/public (projectcontour.io/gateway-controller): refused, ResolvedRefs")},
		"one of its rules was broken before": {all(func(s *snapshot) {
			s.settleGateway()
		}, changeRoute(`"status":"True","type":"ResolvedRefs"`, `"status":"False","type":"ResolvedRefs"`)),
			one("route-parents", Warning, route, "accepted, but for what was so before the canary: ResolvedRefs")},
		"refused before": {all(changeRoute(`"status":"True","type":"ResolvedRefs"`, `"status":"False","type":"ResolvedRefs"`), changeRoute(`"generation":3`, `"generation":4`)),
			one("route-parents", Warning, route, "has refused an earlier state of the route")},
		"behind":     {changeRoute(`"generation":3`, `"generation":4`), one("route-parents", Warning, route, "has not reported on this state of the route yet")},
		"unreported": {func(s *snapshot) { delete(s.route().Object, "status") }, one("route-parents", Warning, route, "unreported", "does the controller of its GatewayClass run?")},
		"no parent": {func(s *snapshot) { unstructured.RemoveNestedField(s.route().Object, "spec", "parentRefs") },
			one("route-parents", Failure, route, "names no parent")},
	})
}

// The plugin of each router is checked, and a problem with the ConfigMap is reported
// once.
func TestSeveralRouters(t *testing.T) {
	s := healthyGateway()
	s.setPlugins(`{argoproj-labs/gatewayAPI: {httpRoute: demo}, kedify/http: {httpScaledObjectName: demo}}`)
	s.controller.config = read[*corev1.ConfigMap]{Err: forbidden("get", "configmaps", "argo-rollouts", configMapName)}
	routers := routersToCheck(s.controller, rolloutsToCheck(s))
	if len(routers) != 2 || routers[0].name != "argoproj-labs/gatewayAPI" || routers[1].name != "kedify/http" {
		t.Fatalf("routers: %+v", routers)
	}
	s.plugins = routers
	said := 0
	for _, result := range look(s) {
		if result.Check == "plugin-registered" {
			said++
		}
	}
	if said != 1 {
		t.Errorf("an unreadable ConfigMap is said %d times", said)
	}

	unused := healthyGateway()
	unused.objects.rollouts.Value = nil
	if routers := routersToCheck(unused.controller, rolloutsToCheck(unused)); len(routers) != 1 || routers[0].name != "argoproj-labs/gatewayAPI" {
		t.Errorf("without a Rollout, the registered router is looked at, not %+v", routers)
	}
	unused.configData()[trafficRouterPlugins], unused.plugins = "", nil
	if found := notOK(Report{Results: look(unused)}); !slices.Equal(found, []string{"plugin-registered failure", "rollout-found warning"}) {
		t.Errorf("nothing registered, nothing used: %v", found)
	}
}

// serveGateway serves a cluster with the Gateway API in which the chart's
// providers.gatewayAPI is granted: update, and not patch.
func serveGateway(t *testing.T) *apiServer {
	t.Helper()
	s := healthyGateway()
	served := func(names ...string) map[string]any {
		var resources []any
		for _, kind := range names {
			resources = append(resources, map[string]any{"name": strings.ToLower(kind) + "s", "kind": kind}, map[string]any{"name": strings.ToLower(kind) + "s/status", "kind": kind})
		}
		return map[string]any{"resources": resources}
	}
	const group = "/apis/gateway.networking.k8s.io"
	a := serve(t, s)
	a.denied = []string{"patch"}
	a.more = map[string]any{
		group:                                    map[string]any{"versions": []any{map[string]any{"version": "v1"}, map[string]any{"version": "v1beta1"}}, "preferredVersion": map[string]any{"version": "v1"}},
		group + "/v1":                            served("HTTPRoute", "GRPCRoute", "Gateway"),
		group + "/v1beta1":                       served("HTTPRoute", "Gateway", "ReferenceGrant"),
		group + "/v1/namespaces/shop/httproutes": map[string]any{"items": []any{s.route().Object}},
	}
	return a
}

func TestRunReadsTheGateway(t *testing.T) {
	a := serveGateway(t)
	report := runOn(t, a, Options{Namespace: "shop"})
	if found := notOK(report); len(found) > 0 || len(report.Results) < 15 {
		t.Errorf("a healthy cluster has %v: %+v", found, report)
	}
	i := slices.IndexFunc(report.Results, func(r Result) bool { return r.Check == "controller-access" })
	if access := report.Results[i].Message; !strings.Contains(access, "get, patch or update httproutes.gateway.networking.k8s.io in namespace shop") {
		t.Errorf("access: %s", access)
	}
	for _, asked := range a.asked {
		if method, path, _ := strings.Cut(asked, " "); method != http.MethodGet && !strings.HasSuffix(path, "accessreviews") {
			t.Errorf("the check changes things: %s", asked)
		}
	}

	a.denied = []string{"patch", "update"}
	if found := notOK(runOn(t, a, Options{Namespace: "shop", Rollout: "demo"})); !slices.Equal(found, []string{"controller-access failure"}) {
		t.Errorf("patch and update denied: %v", found)
	}
	a.denied = nil
	a.forbidden = []string{"/apis/gateway.networking.k8s.io*"}
	if found := notOK(runOn(t, a, Options{Namespace: "shop"})); !slices.Equal(found, []string{"route-exists warning"}) {
		t.Errorf("the group forbidden: %v", found)
	}
	a.forbidden, a.more = nil, nil
	report = runOn(t, a, Options{Namespace: "shop"})
	if found := notOK(report); !slices.Equal(found, []string{"route-exists failure"}) {
		t.Errorf("no CRDs: %v", found)
	}
}
