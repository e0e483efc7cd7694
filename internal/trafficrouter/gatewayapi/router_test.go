package gatewayapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/plugintest"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter"
)

const httpRoutes, rolloutResource = "httproutes", "rollouts"

var succeed, fail, eventually = plugintest.Succeed, plugintest.Fail, plugintest.Eventually

// named is the configuration of a Rollout with one HTTPRoute.
const named = `{"httpRoute": "app"}`

// app is a Rollout in the middle of a canary.
func app(config string) *v1alpha1.Rollout {
	ro := &v1alpha1.Rollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "app", UID: "u-1", Generation: 1},
		Spec: v1alpha1.RolloutSpec{Strategy: v1alpha1.RolloutStrategy{Canary: &v1alpha1.CanaryStrategy{
			StableService: "app-stable", CanaryService: "app-canary",
			TrafficRouting: &v1alpha1.RolloutTrafficRouting{Plugins: map[string]json.RawMessage{DefaultPluginName: json.RawMessage(config)}},
		}}},
	}
	ro.Status.StableRS, ro.Status.CurrentPodHash = "old", "new"
	return ro
}

// httpRoute is an HTTPRoute of Gateway public with one rule, as it is at rest.
func httpRoute(name string) *unstructured.Unstructured {
	return parse(`
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {namespace: demo, name: ` + name + `}
spec:
  parentRefs: [{name: public}]
  rules:
    - timeouts: {request: 5s}
      backendRefs:
        - {name: app-stable, port: 80, weight: 100}
        - {name: app-canary, port: 80, weight: 0}
`)
}

func parse(text string) *unstructured.Unstructured {
	route := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &route.Object); err != nil {
		panic(err)
	}
	return route
}

// reported gives a route a report of its Gateway on a generation.
func reported(route *unstructured.Unstructured, generation, observed int64, accepted bool, reason string) *unstructured.Unstructured {
	r := route.DeepCopy()
	r.SetGeneration(generation)
	status := map[bool]string{true: "True", false: "False"}[accepted]
	condition := func(kind, status string) any {
		return map[string]any{"type": kind, "status": status, "reason": reason, "message": "says the gateway", "observedGeneration": observed}
	}
	r.Object["status"] = map[string]any{"parents": []any{map[string]any{
		"parentRef": map[string]any{"name": "public"}, "controllerName": "example.com/gateway",
		"conditions": []any{condition("Accepted", "True"), condition("ResolvedRefs", status)},
	}}}
	return r
}

// newServer serves Gateway API with these objects.
func newServer(t *testing.T, routes ...*unstructured.Unstructured) *apiservertest.Server {
	server := apiservertest.New(t)
	server.Serve(Group,
		apiservertest.Version{Name: "v1", Kinds: map[string]string{"HTTPRoute": httpRoutes, "GRPCRoute": "grpcroutes"}},
		apiservertest.Version{Name: "v1alpha2", Kinds: map[string]string{"TCPRoute": "tcproutes"}})
	for _, route := range routes {
		server.PutObject(httpRoutes, route)
	}
	return server
}

func newRouter(t *testing.T, server *apiservertest.Server) *Router {
	log := &plugintest.Output{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(log.String())
		}
	})
	router := New(server.Config, hclog.New(&hclog.LoggerOptions{Output: log, Level: hclog.Debug}), Options{SelfHeal: true})
	t.Cleanup(router.Close)
	// What InitPlugin begins, except the look for deleted Rollouts: many tests store no
	// Rollout.
	go router.PutBack(t.Context())
	eventually(t, "routes come from the watch", func() bool {
		_, ok, err := router.routes.Indexed(t.Context(), "HTTPRoute", "none", time.Second)
		return ok && err == nil
	})
	return router
}

func verified(t *testing.T, router *Router, ro *v1alpha1.Rollout, weight int32, want types.RpcVerified) {
	t.Helper()
	got, err := router.VerifyWeight(ro, weight, nil)
	succeed(t, err)
	if got != want {
		t.Errorf("VerifyWeight(%d) = %d, want %d", weight, got, want)
	}
}

// stored returns a route as the API server has it.
func stored(t *testing.T, router *Router, name string) *unstructured.Unstructured {
	t.Helper()
	route, err := router.routes.Group.Read(t.Context(), "HTTPRoute", "demo", name)
	if err != nil {
		t.Fatal(err)
	}
	return route
}

// split describes the backends of each rule of a route: "app-stable=80 app-canary=20".
func split(route *unstructured.Unstructured) string {
	var rules []string
	spec, _ := route.Object["spec"].(map[string]any)
	for _, rule := range objects(spec["rules"]) {
		var refs []string
		for _, ref := range objects(rule["backendRefs"]) {
			refs = append(refs, fmt.Sprintf("%v=%v", ref["name"], ref["weight"]))
		}
		rules = append(rules, strings.Join(refs, " "))
	}
	return strings.Join(rules, "; ")
}

func requireSplit(t *testing.T, router *Router, name, want string) {
	t.Helper()
	if got := split(stored(t, router, name)); got != want {
		t.Errorf("HTTPRoute %s: %s, want %s", name, got, want)
	}
}

// writes returns the requests that change a route, since its last call.
func writes(server *apiservertest.Server) []string {
	var all []string
	for _, r := range server.Requests() {
		if r.Resource != "events" && !slices.Contains([]string{"get", "list", "watch"}, r.Verb) {
			all = append(all, r.String())
		}
	}
	return all
}

// requireEvent waits for a Warning Event on the Rollout with these words.
func requireEvent(t *testing.T, server *apiservertest.Server, reason string, parts ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("Event %s with %q", reason, parts), func() bool {
		return slices.ContainsFunc(server.Events(), func(e corev1.Event) bool {
			return e.Reason == reason && e.InvolvedObject.Kind == "Rollout" && e.InvolvedObject.Name == "app" &&
				!slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(e.Message, part) })
		})
	})
}

// The calls of a canary, from rest to rest: each change takes one request, and a call
// that changes nothing takes none.
func TestACanary(t *testing.T) {
	server := newServer(t, httpRoute("app"))
	router := looking(t, server)
	ro := app(named)
	rest := stored(t, router, "app")
	server.Requests()
	for _, weight := range []int32{5, 25, 50, 75} {
		succeed(t, router.SetWeight(ro, weight, nil))
		requireSplit(t, router, "app", fmt.Sprintf("app-stable=%d app-canary=%d", 100-weight, weight))
		if diff := cmp.Diff([]string{"patch httproutes demo/app"}, writes(server)); diff != "" {
			t.Errorf("requests of weight %d (-want +got):\n%s", weight, diff)
		}
		if value := stored(t, router, "app").GetLabels()[DefaultLabelKey]; value != DefaultLabelValue {
			t.Errorf("the label is %q", value)
		}
		server.Requests()
		for range 3 {
			succeed(t, router.RemoveManagedRoutes(ro))
			succeed(t, router.SetWeight(ro, weight, nil))
		}
		if got := server.Requests(); len(got) > 0 {
			t.Errorf("requests of unchanged calls: %v", got)
		}
	}
	succeed(t, router.SetWeight(ro, 0, nil))
	verified(t, router, ro, 0, types.Verified)
	got := stored(t, router, "app")
	for _, route := range []*unstructured.Unstructured{rest, got} {
		route.SetResourceVersion("")
		route.SetManagedFields(nil)
		route.SetGeneration(0)
	}
	if diff := cmp.Diff(rest.Object, got.Object); diff != "" {
		t.Errorf("the route at rest before and after (-before +after):\n%s", diff)
	}
}

// All routes are decided before the first is written.
func TestOneRouteOfTwoCannotBeSplit(t *testing.T) {
	second := httpRoute("second")
	second.Object["spec"].(map[string]any)["rules"] = []any{}
	server := newServer(t, httpRoute("app"), second)
	router := newRouter(t, server)
	server.Requests()
	two := app(`{"httpRoutes": [{"name": "app"}, {"name": "second"}]}`)
	fail(t, router.SetWeight(two, 20, nil), "SetWeight for Rollout demo/app", "HTTPRoute demo/second", "no rule has both the stable Service app-stable")
	three := app(`{"httpRoutes": [{"name": "app"}, {"name": "third"}]}`)
	fail(t, router.SetWeight(three, 20, nil), "HTTPRoute demo/third not found: create it")
	selected := app(`{"httpRoute": "app", "grpcRouteSelector": {"matchLabels": {"a": "b"}}}`)
	fail(t, router.SetWeight(selected, 20, nil), `there are no GRPCRoutes of namespace demo with labels "a=b"`)
	udp := app(`{"httpRoute": "app", "udpRoute": "app"}`)
	fail(t, router.SetWeight(udp, 20, nil), "UDPRoute demo/app: kind UDPRoute of gateway.networking.k8s.io is not served by this cluster")
	if got := writes(server); len(got) > 0 {
		t.Errorf("requests %v", got)
	}
	server.PutObject(httpRoutes, httpRoute("second"))
	eventually(t, "both are split", func() bool {
		failed := router.SetWeight(two, 20, nil)
		return !failed.HasError()
	})
	requireSplit(t, router, "app", "app-stable=80 app-canary=20")
	requireSplit(t, router, "second", "app-stable=80 app-canary=20")
}

// The error of a failed write names the route, and the next call goes on with that route.
func TestAWriteFails(t *testing.T) {
	server := newServer(t, httpRoute("app"), httpRoute("second"))
	router := newRouter(t, server)
	server.SetFault(func(w http.ResponseWriter, _ *http.Request, request apiservertest.Request) bool {
		if request.Name == "second" && request.Verb != "get" {
			apiservertest.Forbidden(w, request)
			return true
		}
		return false
	})
	two := app(`{"httpRoutes": [{"name": "app"}, {"name": "second"}]}`)
	succeed(t, router.SetWeight(two, 20, nil))
	requireEvent(t, server, trafficrouter.ReasonError, "HTTPRoute demo/second", "may not patch httproutes.gateway.networking.k8s.io: apply ClusterRole argo-rollouts-gatewayapi")
	requireSplit(t, router, "app", "app-stable=80 app-canary=20")
	verified(t, router, two, 20, types.NotVerified)
	server.SetFault(nil)
	succeed(t, router.SetWeight(two, 20, nil))
	requireSplit(t, router, "second", "app-stable=80 app-canary=20")
}

// A route that others have changed since it was read is read again and decided anew.
func TestConflict(t *testing.T) {
	server := newServer(t, httpRoute("app"))
	router := newRouter(t, server)
	conflicts := 0
	server.SetFault(func(w http.ResponseWriter, _ *http.Request, request apiservertest.Request) bool {
		if request.Verb == "patch" && conflicts < 2 {
			conflicts++
			apiservertest.Conflict(w, request)
			return true
		}
		return false
	})
	succeed(t, router.SetWeight(app(named), 20, nil))
	requireSplit(t, router, "app", "app-stable=80 app-canary=20")
	if conflicts != 2 {
		t.Errorf("%d conflicts, want 2", conflicts)
	}
}

// Weight 0 takes the traffic back whatever is wrong with the Rollout.
func TestWeightZero(t *testing.T) {
	for name, config := range map[string]string{
		"a broken configuration":   `{"httpRoute": 5}`,
		"no route":                 `{}`,
		"another route":            `{"httpRoute": "missing"}`,
		"a kind that is not there": `{"udpRoute": "app"}`,
		"another kind":             `{"grpcRoute": "missing"}`,
	} {
		t.Run(name, func(t *testing.T) {
			server := newServer(t, httpRoute("app"))
			router := newRouter(t, server)
			succeed(t, router.SetWeight(app(named), 40, nil))
			requireSplit(t, router, "app", "app-stable=60 app-canary=40")
			changed := app(config)
			changed.Generation++
			succeed(t, router.RemoveManagedRoutes(changed))
			succeed(t, router.SetWeight(changed, 0, nil))
			requireSplit(t, router, "app", "app-stable=100 app-canary=0")
			verified(t, router, changed, 0, types.Verified)
			requireEvent(t, server, trafficrouter.ReasonError)
		})
	}
}

// A new process knows from the route alone what to restore.
func TestWeightZeroAfterARestart(t *testing.T) {
	route := httpRoute("app")
	refs := route.Object["spec"].(map[string]any)["rules"].([]any)[0].(map[string]any)["backendRefs"].([]any)
	refs[0].(map[string]any)["weight"] = int64(1)
	server := newServer(t, route)
	succeed(t, newRouter(t, server).SetWeight(app(named), 40, nil))
	router := newRouter(t, server)
	requireSplit(t, router, "app", "app-stable=60 app-canary=40")
	succeed(t, router.SetWeight(app(named), 0, nil))
	requireSplit(t, router, "app", "app-stable=1 app-canary=0")
}

// While a route carries traffic, a Rollout whose spec cannot be carried out keeps it, and
// the controller goes on to its analysis.
func TestABrokenRolloutMidCanary(t *testing.T) {
	for name, config := range map[string]string{
		"a broken configuration": `{"httpRoute": 5}`,
		"a missing route":        `{"httpRoutes": [{"name": "app"}, {"name": "missing"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			server := newServer(t, httpRoute("app"))
			router := newRouter(t, server)
			broken := app(config)
			broken.Generation++
			fail(t, router.SetWeight(broken, 20, nil), "SetWeight for Rollout demo/app")
			succeed(t, router.SetWeight(app(named), 20, nil))
			succeed(t, router.SetWeight(broken, 60, nil))
			requireSplit(t, router, "app", "app-stable=80 app-canary=20")
			verified(t, router, broken, 60, types.NotVerified)
			requireEvent(t, server, trafficrouter.ReasonError, "the route stays as it is until this is corrected or the Rollout is aborted")

			scaling := broken.DeepCopy()
			scaling.Spec.Strategy.Canary.DynamicStableScale = true
			fail(t, router.SetWeight(scaling, 60, nil), "SetWeight for Rollout demo/app")
		})
	}
}

// A route that the Rollout no longer names goes back to rest, whatever the weight.
func TestARouteIsNoLongerNamed(t *testing.T) {
	server := newServer(t, httpRoute("app"), httpRoute("second"))
	router := newRouter(t, server)
	succeed(t, router.SetWeight(app(named), 20, nil))
	moved := app(`{"httpRoute": "second"}`)
	moved.Generation++
	succeed(t, router.SetWeight(moved, 30, nil))
	requireSplit(t, router, "app", "app-stable=100 app-canary=0")
	requireSplit(t, router, "second", "app-stable=70 app-canary=30")
}

// A rule belongs to one Rollout at a time, until that is deleted or no longer uses the
// plugin.
func TestTwoRolloutsOfOneRule(t *testing.T) {
	server := newServer(t, httpRoute("app"))
	router := newRouter(t, server)
	first := app(named)
	first.Name, first.UID = "first", "u-0"
	server.PutObject(rolloutResource, first)
	succeed(t, router.SetWeight(first, 20, nil))
	fail(t, router.SetWeight(app(named), 50, nil), "is split by Rollout demo/first, and cannot be split by Rollout demo/app, too")
	succeed(t, router.SetWeight(app(named), 0, nil))
	requireSplit(t, router, "app", "app-stable=80 app-canary=20")
	server.Delete(rolloutResource, "demo", "first")
	succeed(t, router.SetWeight(app(named), 50, nil))
	requireSplit(t, router, "app", "app-stable=50 app-canary=50")
	if got := RolloutsOn(stored(t, router, "app")); len(got) != 1 || got[0].Rollout.Name != "app" {
		t.Errorf("the route carries %v", got)
	}
}

func watched(router *Router) *unstructured.Unstructured {
	route, _ := router.routes.Group.Watched("HTTPRoute", "demo", "app")
	return route
}

// headers is a Rollout whose first step sets a header route, and whose third removes it.
func headers() *v1alpha1.Rollout {
	ro := app(named)
	ro.Spec.Strategy.Canary.TrafficRouting.ManagedRoutes = []v1alpha1.MangedRoutes{{Name: "beta"}}
	weight := int32(20)
	ro.Spec.Strategy.Canary.Steps = []v1alpha1.CanaryStep{
		{SetHeaderRoute: &v1alpha1.SetHeaderRoute{Name: "beta", Match: []v1alpha1.HeaderRoutingMatch{{HeaderName: "X-Beta", HeaderValue: &v1alpha1.StringMatch{Exact: "yes"}}}}},
		{SetWeight: &weight},
		{SetHeaderRoute: &v1alpha1.SetHeaderRoute{Name: "beta"}},
	}
	return ro
}

func at(ro *v1alpha1.Rollout, step int32) *v1alpha1.Rollout {
	ro = ro.DeepCopy()
	ro.Status.CurrentStepIndex = &step
	return ro
}

// A header route is set beside the weights, does not depend on them, and is removed by
// its name.
func TestAHeaderRoute(t *testing.T) {
	server := newServer(t, httpRoute("app"))
	router := newRouter(t, server)
	ro := headers()
	succeed(t, router.SetHeaderRoute(at(ro, 0), ro.Spec.Strategy.Canary.Steps[0].SetHeaderRoute))
	succeed(t, router.SetWeight(at(ro, 0), 0, nil))
	requireSplit(t, router, "app", "app-stable=100 app-canary=0; app-canary=1")
	if value := stored(t, router, "app").GetLabels()[DefaultLabelKey]; value != DefaultLabelValue {
		t.Errorf("with a header route alone the label is %q", value)
	}
	succeed(t, router.SetWeight(at(ro, 1), 20, nil))
	requireSplit(t, router, "app", "app-stable=80 app-canary=20; app-canary=1")
	succeed(t, router.SetHeaderRoute(at(ro, 2), ro.Spec.Strategy.Canary.Steps[2].SetHeaderRoute))
	requireSplit(t, router, "app", "app-stable=80 app-canary=20")
	succeed(t, router.SetHeaderRoute(at(ro, 0), ro.Spec.Strategy.Canary.Steps[0].SetHeaderRoute))
	succeed(t, router.RemoveManagedRoutes(ro))
	requireSplit(t, router, "app", "app-stable=80 app-canary=20")
}

// The log has weights only for a call that sets them: the line about a header route
// beside a weight of 20 must not show a weight of 0.
func TestTheLogOfAHeaderRouteHasNoWeights(t *testing.T) {
	server := newServer(t, httpRoute("app"))
	log := &plugintest.Output{}
	router := New(server.Config, hclog.New(&hclog.LoggerOptions{Output: log}), Options{})
	t.Cleanup(router.Close)
	ro := headers()
	succeed(t, router.SetWeight(at(ro, 0), 20, nil))
	succeed(t, router.SetHeaderRoute(at(ro, 0), ro.Spec.Strategy.Canary.Steps[0].SetHeaderRoute))
	var changes []string
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "route changed") {
			changes = append(changes, line)
		}
	}
	if len(changes) != 2 || !strings.Contains(changes[0], "canary=20") || strings.Contains(changes[1], "canary=") {
		t.Errorf("the log says of the weight and of the header route:\n%q", changes)
	}
}

func TestNoRouteTakesTheHeaderRoute(t *testing.T) {
	server := newServer(t, httpRoute("app"))
	router := newRouter(t, server)
	step := headers().Spec.Strategy.Canary.Steps[0].SetHeaderRoute
	fail(t, router.SetHeaderRoute(app(`{"httpRoutes": [{"name": "app"}]}`), step), "header route beta: none of the Rollout's routes takes it: set useHeaderRoutes")
	mirror := &v1alpha1.SetMirrorRoute{Name: "shadow", Match: []v1alpha1.RouteMatch{{Method: &v1alpha1.StringMatch{Exact: "GET"}}}}
	fail(t, router.SetMirrorRoute(app(`{"grpcRoute": "app"}`), mirror), "GRPCRoute demo/app not found")
}

// If another writer changes a route, its weights, its header route and the annotation are
// put back.
func TestAChangedRouteIsPutBack(t *testing.T) {
	ro := headers()
	for name, change := range map[string]func(*unstructured.Unstructured){
		"another weight": func(r *unstructured.Unstructured) {
			r.SetGeneration(r.GetGeneration() + 1)
			rules := r.Object["spec"].(map[string]any)["rules"].([]any)
			rules[0].(map[string]any)["backendRefs"].([]any)[1].(map[string]any)["weight"] = int64(0)
		},
		"the rules of git": func(r *unstructured.Unstructured) {
			r.SetGeneration(r.GetGeneration() + 1)
			r.Object["spec"] = httpRoute("app").Object["spec"]
		},
		"all of git": func(r *unstructured.Unstructured) {
			r.SetGeneration(r.GetGeneration() + 1)
			r.Object["spec"] = httpRoute("app").Object["spec"]
			r.SetAnnotations(nil)
			r.SetLabels(nil)
		},
		"without the label": func(r *unstructured.Unstructured) { r.SetLabels(nil) },
		"without the label, the rules the plugin's": func(r *unstructured.Unstructured) {
			r.SetLabels(nil)
			r.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: FieldManager, FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec": {"f:rules": {}}}`)}}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, httpRoute("app"))
			router := newRouter(t, server)
			server.PutObject(rolloutResource, at(ro, 1))
			succeed(t, router.SetHeaderRoute(at(ro, 0), ro.Spec.Strategy.Canary.Steps[0].SetHeaderRoute))
			succeed(t, router.SetWeight(at(ro, 1), 20, nil))
			changed := stored(t, router, "app")
			change(changed)
			server.PutObject(httpRoutes, changed)
			eventually(t, "the route is put back", func() bool {
				route := stored(t, router, "app")
				return split(route) == "app-stable=80 app-canary=20; app-canary=1" && route.GetLabels()[DefaultLabelKey] == DefaultLabelValue
			})
			requireEvent(t, server, reasonRestored, "HTTPRoute demo/app", "to end the canary, abort the Rollout")
		})
	}
}

// A header route that a call has removed is not put back before the next SetWeight, and
// the removal is not taken for another writer's change: that costs no request.
func TestARemovedHeaderRouteIsNoChangeOfAnothers(t *testing.T) {
	server := newServer(t, httpRoute("app"))
	router := newRouter(t, server)
	ro := headers()
	server.PutObject(rolloutResource, at(ro, 1))
	succeed(t, router.SetHeaderRoute(at(ro, 0), ro.Spec.Strategy.Canary.Steps[0].SetHeaderRoute))
	succeed(t, router.SetWeight(at(ro, 1), 20, nil))
	succeed(t, router.RemoveManagedRoutes(at(ro, 1)))
	const want = "app-stable=80 app-canary=20"
	eventually(t, "the watch shows the change", func() bool { return split(watched(router)) == want })
	server.Requests()
	if outcome := router.PutBackOnce(t.Context(), trafficrouter.Ref{Kind: "HTTPRoute", NamespacedName: nameOf(ro)}); outcome != trafficrouter.Unneeded {
		t.Errorf("the repair ends with %v, want it not to be needed", outcome)
	}
	for _, r := range server.Requests() {
		if r.Verb == "get" || r.Verb == "patch" {
			t.Errorf("it has sent %+v", r)
		}
	}
	requireSplit(t, router, "app", want)
}

// A route is not put back if the Rollout has changed since the call, nor at rest.
func TestAChangedRouteIsLeftAlone(t *testing.T) {
	for name, tc := range map[string]struct {
		weight int32
		change func(*v1alpha1.Rollout)
	}{
		"aborted":            {20, func(ro *v1alpha1.Rollout) { ro.Status.Abort = true }},
		"spec changed":       {20, func(ro *v1alpha1.Rollout) { ro.Generation++ }},
		"at another weight":  {20, func(ro *v1alpha1.Rollout) { ro.Status.Canary.Weights.Canary.Weight = 40 }},
		"with an experiment": {20, func(ro *v1alpha1.Rollout) { ro.Status.Canary.Weights.Stable.Weight = 70 }},
		"at rest":            {0, func(*v1alpha1.Rollout) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, httpRoute("app"))
			router := newRouter(t, server)
			ro := app(named)
			ro.Status.Canary.Weights = &v1alpha1.TrafficWeights{Canary: v1alpha1.WeightDestination{Weight: tc.weight}, Stable: v1alpha1.WeightDestination{Weight: 100 - tc.weight}}
			succeed(t, router.SetWeight(ro, tc.weight, nil))
			tc.change(ro)
			server.PutObject(rolloutResource, ro)
			changed := stored(t, router, "app")
			changed.SetGeneration(changed.GetGeneration() + 1)
			changed.Object["spec"] = parse(`{spec: {rules: [{backendRefs: [{name: app-stable, weight: 50}, {name: app-canary, weight: 50}]}]}}`).Object["spec"]
			server.Requests()
			server.PutObject(httpRoutes, changed)
			eventually(t, "the watch shows the change", func() bool { return split(watched(router)) == "app-stable=50 app-canary=50" })
			router.Changed(trafficrouter.Ref{Kind: string(HTTPRoute), NamespacedName: nameOf(ro)})
			if tc.weight > 0 {
				eventually(t, "the Rollout is looked at", func() bool {
					return slices.ContainsFunc(server.Requests(), func(r apiservertest.Request) bool { return r.Resource == rolloutResource })
				})
			}
			if outcome := router.PutBackOnce(t.Context(), refOf(changed)); outcome == trafficrouter.Repaired {
				t.Error("the route is put back")
			}
			requireSplit(t, router, "app", "app-stable=50 app-canary=50")
		})
	}
}
