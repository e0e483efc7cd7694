package gatewayapi

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/hashicorp/go-hclog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter"
)

// refuse makes the server refuse some verbs for an object, or for all objects of a
// resource.
func refuse(server *apiservertest.Server, resource, name string, verbs ...string) {
	server.SetFault(func(w http.ResponseWriter, _ *http.Request, request apiservertest.Request) bool {
		if request.Resource == resource && (name == "" || request.Name == name) && slices.Contains(verbs, request.Verb) {
			apiservertest.Forbidden(w, request)
			return true
		}
		return false
	})
}

// The controller asks for the header route of a Rollout's current step before it sets the
// weight, even if the Rollout is aborted: this does not block the abort, and a header
// route that was removed stays removed.
func TestAHeaderRouteIsInTheWayOfNoAbort(t *testing.T) {
	server := newServer(t, httpRoute("app"))
	router := newRouter(t, server)
	ro := headers()
	step := ro.Spec.Strategy.Canary.Steps[0].SetHeaderRoute
	succeed(t, router.SetHeaderRoute(at(ro, 0), step))
	succeed(t, router.SetWeight(at(ro, 1), 20, nil))
	for name, leave := range map[string]func(*v1alpha1.Rollout){
		"aborted":          func(ro *v1alpha1.Rollout) { ro.Status.Abort = true },
		"promoted in full": func(ro *v1alpha1.Rollout) { ro.Status.PromoteFull = true },
		"aborted, with a route that is missing": func(ro *v1alpha1.Rollout) {
			ro.Status.Abort = true
			ro.Spec.Strategy.Canary.TrafficRouting.Plugins = app(`{"httpRoutes": [{"name": "app", "useHeaderRoutes": true}, {"name": "missing"}]}`).Spec.Strategy.Canary.TrafficRouting.Plugins
		},
	} {
		leaving := at(ro, 0)
		leave(leaving)
		succeed(t, router.RemoveManagedRoutes(leaving))
		succeed(t, router.SetHeaderRoute(leaving, step))
		succeed(t, router.SetWeight(leaving, 0, nil))
		if got := split(stored(t, router, "app")); got != "app-stable=100 app-canary=0" {
			t.Errorf("%s: %s", name, got)
		}
		if value, ok := stored(t, router, "app").GetLabels()[DefaultLabelKey]; ok {
			t.Errorf("%s: the label is %q", name, value)
		}
	}
}

// While a route carries traffic, a header route that cannot be set is reported in an
// Event, and the controller goes on to its analysis and to weight 0.
func TestAHeaderRouteThatCannotBe(t *testing.T) {
	server := newServer(t, httpRoute("app"))
	router := newRouter(t, server)
	ro := app(`{"httpRoutes": [{"name": "app"}]}`)
	step := headers().Spec.Strategy.Canary.Steps[0].SetHeaderRoute
	fail(t, router.SetHeaderRoute(ro, step), "header route beta: none of the Rollout's routes takes it")
	succeed(t, router.SetWeight(ro, 20, nil))
	ro.Status.Canary.Weights = &v1alpha1.TrafficWeights{Canary: v1alpha1.WeightDestination{Weight: 20}}
	succeed(t, router.SetHeaderRoute(ro, step))
	requireEvent(t, server, trafficrouter.ReasonError, "header route beta: none of the Rollout's routes takes it")
	succeed(t, router.SetWeight(ro, 0, nil))
	requireSplit(t, router, "app", "app-stable=100 app-canary=0")
}

// newServerOfTwoKinds returns a server with HTTPRoute app and GRPCRoute app.
func newServerOfTwoKinds(t *testing.T) *apiservertest.Server {
	t.Helper()
	server := newServer(t, httpRoute("app"))
	grpc := httpRoute("app")
	grpc.SetKind("GRPCRoute")
	server.PutObject("grpcroutes", grpc)
	return server
}

// A route that cannot be read or written does not keep others from going to rest, and is
// named in the error.
func TestOneRouteKeepsNoOtherFromRest(t *testing.T) {
	for name, verbs := range map[string][]string{"read": {"get", "list", "watch"}, "written": {"patch", "update"}} {
		t.Run("cannot be "+name, func(t *testing.T) {
			server := newServerOfTwoKinds(t)
			both := app(`{"grpcRoute": "app", "httpRoute": "app"}`)
			succeed(t, newRouter(t, server).SetWeight(both, 40, nil))
			requireSplit(t, newRouter(t, server), "app", "app-stable=60 app-canary=40")

			refuse(server, "grpcroutes", "", verbs...)
			router := newRouter(t, server) // a new process
			succeed(t, router.RemoveManagedRoutes(both))
			fail(t, router.SetWeight(both, 0, nil), "GRPCRoute demo/app", "the controller's ServiceAccount may not")
			requireSplit(t, router, "app", "app-stable=100 app-canary=0")
			server.SetFault(nil)
			succeed(t, router.SetWeight(both, 0, nil))
		})
	}
}

// The same while an experiment has a weight: the canary itself has none.
func TestOneRouteKeepsNoOtherFromWeight0BesideAnExperiment(t *testing.T) {
	server := newServerOfTwoKinds(t)
	both := app(`{"grpcRoute": "app", "httpRoute": "app"}`)
	succeed(t, newRouter(t, server).SetWeight(both, 40, nil))
	refuse(server, "grpcroutes", "", "get", "list", "watch")
	router := newRouter(t, server)
	experiments := []v1alpha1.WeightDestination{{ServiceName: "experiment", Weight: 10}}
	fail(t, router.SetWeight(both, 0, experiments), "GRPCRoute demo/app", "the controller's ServiceAccount may not")
	if got := split(stored(t, router, "app")); !strings.Contains(got, "app-canary=0") {
		t.Errorf("the other route has %s, want nothing for the canary", got)
	}
}

// An aborted Rollout with dynamicStableScale goes down in steps, and its stable side
// grows only once the weight is set: if no route carries traffic, there is nothing to
// wait for.
func TestAnAbortWithDynamicStableScaleAndNothingOnARoute(t *testing.T) {
	server := newServer(t, httpRoute("app"))
	router := newRouter(t, server)
	ro := app(`{"httpRoute": "missing"}`)
	ro.Spec.Strategy.Canary.DynamicStableScale = true
	ro.Status.Canary.Weights = &v1alpha1.TrafficWeights{Canary: v1alpha1.WeightDestination{Weight: 80}, Stable: v1alpha1.WeightDestination{Weight: 20}}
	fail(t, router.SetWeight(ro, 60, nil), "HTTPRoute demo/missing")
	ro.Status.Abort = true
	succeed(t, router.SetWeight(ro, 60, nil))
	requireEvent(t, server, trafficrouter.ReasonError, "HTTPRoute demo/missing")
	requireSplit(t, router, "app", "app-stable=100 app-canary=0")
}

// Header routes that cannot be removed do not keep a weight from being set, and a later
// SetWeight removes them.
func TestRemovalFailsAfterTheWeight(t *testing.T) {
	second := httpRoute("second")
	server := newServer(t, httpRoute("app"), second)
	router := newRouter(t, server)
	ro := headers()
	ro.Spec.Strategy.Canary.TrafficRouting.Plugins = app(`{"httpRoutes": [{"name": "app", "useHeaderRoutes": true}, {"name": "second"}]}`).Spec.Strategy.Canary.TrafficRouting.Plugins
	succeed(t, router.SetHeaderRoute(at(ro, 0), ro.Spec.Strategy.Canary.Steps[0].SetHeaderRoute))
	succeed(t, router.SetWeight(at(ro, 1), 20, nil))
	refuse(server, httpRoutes, "app", "patch", "update")
	aborted := at(ro, 0) // as the controller has it then
	aborted.Status.Abort = true
	succeed(t, router.RemoveManagedRoutes(aborted))
	succeed(t, router.SetHeaderRoute(aborted, ro.Spec.Strategy.Canary.Steps[0].SetHeaderRoute))
	fail(t, router.SetWeight(aborted, 0, nil), "HTTPRoute demo/app")
	requireSplit(t, router, "second", "app-stable=100 app-canary=0")
	server.SetFault(nil)
	succeed(t, router.SetWeight(aborted, 0, nil))
	requireSplit(t, router, "app", "app-stable=100 app-canary=0")
}

// With pingPong the route differs from git at rest, too, and is put back: the other
// Service may have no pods.
func TestPingPongIsPutBackAtRest(t *testing.T) {
	server := newServer(t, httpRoute("app"))
	router := newRouter(t, server)
	ro := app(named)
	ro.Spec.Strategy.Canary.PingPong = &v1alpha1.PingPongSpec{PingService: "app-stable", PongService: "app-canary"}
	ro.Status.Canary.StablePingPong = v1alpha1.PPPing
	succeed(t, router.SetWeight(ro, 100, nil))
	ro.Status.Canary.StablePingPong = v1alpha1.PPPong
	ro.Status.StableRS = ro.Status.CurrentPodHash
	server.PutObject(rolloutResource, ro)
	succeed(t, router.SetWeight(ro, 0, nil))
	const rest = "app-stable=0 app-canary=100"
	requireSplit(t, router, "app", rest)
	git := stored(t, router, "app")
	git.Object["spec"] = httpRoute("app").Object["spec"]
	git.SetGeneration(git.GetGeneration() + 1)
	server.PutObject(httpRoutes, git)
	eventually(t, "the route is put back", func() bool { return split(stored(t, router, "app")) == rest })
}

// Two Rollouts share a route: what is put back for one Rollout is not taken for a write
// of another plugin instance when the other Rollout is repaired.
func TestARevertIsPutBackForEachRollout(t *testing.T) {
	shared := httpRoute("app")
	rules := shared.Object["spec"].(map[string]any)["rules"].([]any)
	own := parse(`{spec: {rules: [{matches: [{path: {value: /other}}], backendRefs: [{name: other-stable, port: 80, weight: 100}, {name: other-canary, port: 80, weight: 0}]}]}}`)
	shared.Object["spec"].(map[string]any)["rules"] = append(rules, own.Object["spec"].(map[string]any)["rules"].([]any)...)
	server := newServer(t, shared)
	router := newRouter(t, server)
	first, second := app(named), app(named)
	second.Name, second.UID = "other", "u-2"
	second.Spec.Strategy.Canary.StableService, second.Spec.Strategy.Canary.CanaryService = "other-stable", "other-canary"
	for _, ro := range []*v1alpha1.Rollout{first, second} {
		server.PutObject(rolloutResource, ro)
		succeed(t, router.SetWeight(ro, 20, nil))
	}
	const want = "app-stable=80 app-canary=20; other-stable=80 other-canary=20"
	requireSplit(t, router, "app", want)
	git := stored(t, router, "app")
	git.Object["spec"] = shared.Object["spec"]
	git.SetGeneration(git.GetGeneration() + 1)
	git.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: FieldManager, FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec": {"f:rules": {}}}`)}}})
	router.routes.reports.wrote(refOf(git), git) // as a repair for one of them leaves it
	server.PutObject(httpRoutes, git)
	eventually(t, "the route is put back for both", func() bool { return split(stored(t, router, "app")) == want })
}

// The canary's pods die while an experiment runs, and one route is missing: the other
// routes go to rest all the same.
func TestWeightZeroWithAnExperimentThatCannotBe(t *testing.T) {
	server := newServer(t, httpRoute("app"))
	router := newRouter(t, server)
	succeed(t, router.SetWeight(app(named), 40, nil))
	ro := app(`{"httpRoutes": [{"name": "app"}, {"name": "missing"}]}`)
	experiment := []v1alpha1.WeightDestination{{ServiceName: "app-experiment", PodTemplateHash: "x", Weight: 10}}
	succeed(t, router.SetWeight(ro, 0, experiment))
	requireSplit(t, router, "app", "app-stable=100 app-canary=0")
	if got, err := router.VerifyWeight(ro, 0, experiment); err.HasError() || got != types.NotVerified {
		t.Errorf("VerifyWeight = %d, %v", got, err)
	}

	// The experiment's Service does not exist.
	succeed(t, router.SetWeight(app(named), 40, nil))
	succeed(t, router.SetWeight(app(named), 0, experiment))
	requireSplit(t, router, "app", "app-stable=100 app-canary=0")
	requireEvent(t, server, trafficrouter.ReasonError, "app-stable, for the ports of an experiment", "all requests go to stable")
}

// A Rollout that is held keeps its routes: a change by another writer is put back,
// although the controller counts the held weight as set.
func TestAHeldRolloutIsPutBack(t *testing.T) {
	server := newServer(t, httpRoute("app"))
	router := newRouter(t, server)
	succeed(t, router.SetWeight(app(named), 20, nil))
	held := app(`{"httpRoutes": [{"name": "app"}, {"name": "missing"}]}`)
	held.Generation++
	held.Status.Canary.Weights = &v1alpha1.TrafficWeights{Canary: v1alpha1.WeightDestination{Weight: 60}, Stable: v1alpha1.WeightDestination{Weight: 40}}
	succeed(t, router.SetWeight(held, 60, nil))
	server.PutObject(rolloutResource, held)
	changed := stored(t, router, "app")
	changed.Object["spec"] = httpRoute("app").Object["spec"]
	changed.SetGeneration(changed.GetGeneration() + 1)
	server.PutObject(httpRoutes, changed)
	eventually(t, "the route is put back", func() bool { return split(stored(t, router, "app")) == "app-stable=80 app-canary=20" })

	// Even with verification off, a weight that is held is not verified.
	off := app(`{"httpRoutes": [{"name": "app"}, {"name": "missing"}], "verification": "off"}`)
	verified(t, router, off, 60, types.NotVerified)
	verified(t, router, app(`{"httpRoute": "app", "verification": "off"}`), 20, types.Verified)
}

// Routes outside the one namespace that is watched are not found by their annotation: for
// a Rollout with a broken configuration, only the routes that this process has split are
// restored.
func TestWeightZeroOutsideTheWatchedNamespace(t *testing.T) {
	away := httpRoute("app")
	away.SetNamespace("infra")
	refs := away.Object["spec"].(map[string]any)["rules"].([]any)[0].(map[string]any)["backendRefs"].([]any)
	for _, ref := range refs {
		ref.(map[string]any)["namespace"] = "demo"
	}
	server := newServer(t, away)
	router := newRouter(t, server)
	router.Close()
	router = New(server.Config, router.Logger, Options{SelfHeal: true, WatchNamespace: "demo"})
	t.Cleanup(router.Close)
	succeed(t, router.SetWeight(app(`{"httpRoute": "app", "namespace": "infra"}`), 40, nil))
	broken := app(`{"httpRoute": 5}`)
	broken.Generation++
	succeed(t, router.SetWeight(broken, 0, nil))
	route, err := router.routes.Group.Read(t.Context(), "HTTPRoute", "infra", "app")
	if err != nil {
		t.Fatal(err)
	}
	if got := split(route); got != "app-stable=100 app-canary=0" {
		t.Errorf("the route: %s", got)
	}
	// The routes are not known any more: an abort must not count as done.
	fail(t, router.SetWeight(broken, 0, nil), "the routes to take traffic off are not known")
}

// A mirror whose percentage the API server drops would mirror all requests: the mirror is
// removed again.
func TestAMirrorWithoutItsPercentage(t *testing.T) {
	server := newServer(t, httpRoute("app"))
	router := newRouter(t, server)
	dropPercents(server)
	ro := app(named)
	ro.Spec.Strategy.Canary.TrafficRouting.ManagedRoutes = []v1alpha1.MangedRoutes{{Name: "shadow"}}
	percentage := int32(10)
	step := &v1alpha1.SetMirrorRoute{Name: "shadow", Percentage: &percentage, Match: []v1alpha1.RouteMatch{{Method: &v1alpha1.StringMatch{Exact: "GET"}}}}
	fail(t, router.SetMirrorRoute(ro, step), "SetMirrorRoute for Rollout demo/app", "percent")
	if route := stored(t, router, "app"); len(objects(route.Object["spec"].(map[string]any)["rules"])) != 1 {
		t.Errorf("the mirror is on the route: %v", route.Object["spec"])
	}
}

// With dynamicStableScale the weight of a held Rollout may go down, as the stable side
// grows with that.
func TestAHeldRolloutGoesDownWithDynamicStableScale(t *testing.T) {
	server := newServer(t, httpRoute("app"))
	router := newRouter(t, server)
	succeed(t, router.SetWeight(app(named), 40, nil))
	broken := app(`{"httpRoute": 5}`)
	broken.Spec.Strategy.Canary.DynamicStableScale = true
	broken.Status.Canary.Weights = &v1alpha1.TrafficWeights{Canary: v1alpha1.WeightDestination{Weight: 40}}
	succeed(t, router.SetWeight(broken, 20, nil))
	requireSplit(t, router, "app", "app-stable=60 app-canary=40")
	fail(t, router.SetWeight(broken, 60, nil), "SetWeight for Rollout demo/app")
}

func TestARouteThatIsNotNamedHoldsUpNothing(t *testing.T) {
	server := newServer(t, httpRoute("app"), httpRoute("second"))
	router := newRouter(t, server)
	succeed(t, router.SetWeight(app(`{"httpRoute": "second"}`), 20, nil))
	refuse(server, httpRoutes, "second", "patch", "update")
	moved := app(named)
	moved.Generation++
	succeed(t, router.SetWeight(moved, 30, nil))
	requireSplit(t, router, "app", "app-stable=70 app-canary=30")
	requireEvent(t, server, trafficrouter.ReasonError, "what the Rollout does not name (any more) keeps what it has of it", "HTTPRoute demo/second")
	server.SetFault(nil)
	succeed(t, router.SetWeight(moved, 30, nil))
	requireSplit(t, router, "second", "app-stable=100 app-canary=0")
	if strings.Contains(split(stored(t, router, "app")), "100") {
		t.Error("the named route has gone to rest")
	}
}

// A call that fails after it has written one route of two is not undone: the written
// route is not taken for another writer's, although the Rollout's status still has the
// former weight.
func TestWhatACallHasWrittenBeforeItFailedStays(t *testing.T) {
	server := newServer(t, httpRoute("app"), httpRoute("second"))
	router := newRouter(t, server)
	ro := app(`{"httpRoutes": [{"name": "app"}, {"name": "second"}]}`)
	ro.Status.Canary.Weights = &v1alpha1.TrafficWeights{Canary: v1alpha1.WeightDestination{Weight: 20}, Stable: v1alpha1.WeightDestination{Weight: 80}}
	server.PutObject(rolloutResource, ro)
	succeed(t, router.SetWeight(ro, 20, nil))
	refuse(server, httpRoutes, "second", "patch", "update")
	succeed(t, router.SetWeight(ro, 30, nil))
	requireEvent(t, server, trafficrouter.ReasonError, "HTTPRoute demo/second")
	eventually(t, "the watch shows the write", func() bool { return split(watched(router)) == "app-stable=70 app-canary=30" })
	// A call waits for a repair that is under way.
	router.Changed(refOf(watched(router)))
	if outcome := repaired(t, router, ro, refOf(watched(router))); outcome == trafficrouter.Repaired {
		t.Error("the router undoes its own write")
	}
	requireSplit(t, router, "app", "app-stable=70 app-canary=30")
}

// repaired runs the repair of a route as after a change of it.
func repaired(t *testing.T, router *Router, ro *v1alpha1.Rollout, ref trafficrouter.Ref) trafficrouter.Outcome {
	t.Helper()
	if _, _, ok := router.PutsBack(nameOf(ro)); !ok {
		t.Fatal("nothing is kept for the Rollout")
	}
	return router.PutBackOnce(t.Context(), ref)
}

// Another writer sets a route back, annotation included, and the controller calls before
// the repair: the canary keeps its header route until a call removes it.
func TestACallBeforeTheRepairKeepsHeaderRoutes(t *testing.T) {
	ro := headers()
	header := ro.Spec.Strategy.Canary.Steps[0].SetHeaderRoute
	second := header.DeepCopy()
	second.Name = "gamma"
	ro.Spec.Strategy.Canary.TrafficRouting.ManagedRoutes = append(ro.Spec.Strategy.Canary.TrafficRouting.ManagedRoutes, v1alpha1.MangedRoutes{Name: "gamma"})
	for name, tc := range map[string]struct {
		call func(*Router) types.RpcError
		want string
	}{
		"SetWeight":   {func(r *Router) types.RpcError { return r.SetWeight(at(ro, 1), 30, nil) }, "app-stable=70 app-canary=30; app-canary=1"},
		"SetWeight 0": {func(r *Router) types.RpcError { return r.SetWeight(at(ro, 1), 0, nil) }, "app-stable=100 app-canary=0; app-canary=1"},
		"SetHeaderRoute": {func(r *Router) types.RpcError {
			succeed(t, r.SetHeaderRoute(at(ro, 1), second))
			return r.SetWeight(at(ro, 1), 20, nil)
		}, "app-stable=80 app-canary=20; app-canary=1; app-canary=1"},
		"RemoveManagedRoutes": {func(r *Router) types.RpcError { return r.RemoveManagedRoutes(at(ro, 1)) }, "app-stable=100 app-canary=0"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, false)
			succeed(t, w.router.SetHeaderRoute(at(ro, 0), header))
			succeed(t, w.router.SetWeight(at(ro, 1), 20, nil))
			requireSplit(t, w.router, "app", "app-stable=80 app-canary=20; app-canary=1")
			w.change("app", func(r *unstructured.Unstructured) {
				r.Object["spec"] = httpRoute("app").Object["spec"]
				r.SetAnnotations(nil)
				r.SetLabels(nil)
			})
			w.settle(t)
			verified(t, w.router, at(ro, 1), 20, types.NotVerified)
			succeed(t, tc.call(w.router))
			requireSplit(t, w.router, "app", tc.want)
		})
	}
}

// Header routes of the previous canary could not be removed: a later call removes them,
// and none that the next canary has set meanwhile.
func TestALateRemovalLeavesNewHeaderRoutes(t *testing.T) {
	server := newServer(t, httpRoute("app"))
	router := newRouter(t, server)
	ro := headers()
	ro.Spec.Strategy.Canary.TrafficRouting.ManagedRoutes = []v1alpha1.MangedRoutes{{Name: "beta"}, {Name: "former"}}
	former := *ro.Spec.Strategy.Canary.Steps[0].SetHeaderRoute
	former.Name, former.Match = "former", []v1alpha1.HeaderRoutingMatch{{HeaderName: "X-Former", HeaderValue: &v1alpha1.StringMatch{Exact: "yes"}}}
	succeed(t, router.SetHeaderRoute(at(ro, 0), &former))
	refuse(server, httpRoutes, "app", "patch", "update")
	aborted := at(ro, 0)
	aborted.Status.Abort = true
	succeed(t, router.RemoveManagedRoutes(aborted))
	server.SetFault(nil)
	// The user tries again before the controller has come back to the abort.
	succeed(t, router.SetHeaderRoute(at(ro, 0), ro.Spec.Strategy.Canary.Steps[0].SetHeaderRoute))
	succeed(t, router.SetWeight(at(ro, 1), 20, nil))
	requireSplit(t, router, "app", "app-stable=80 app-canary=20; app-canary=1")
	if got := managedNames(stored(t, router, "app"), ro); len(got) != 1 || got[0] != "beta" {
		t.Errorf("header routes %v, want the one of this canary", got)
	}
}

// A Rollout's current step removes a header route, and that fails: it does not keep a
// weight from being set, and a later SetWeight makes up for it.
func TestTheRemovalOfAStepIsInTheWayOfNoWeight(t *testing.T) {
	server := newServer(t, httpRoute("app"), httpRoute("second"))
	router := newRouter(t, server)
	ro := headers()
	ro.Spec.Strategy.Canary.TrafficRouting.Plugins = app(`{"httpRoutes": [{"name": "app", "useHeaderRoutes": true}, {"name": "second"}]}`).Spec.Strategy.Canary.TrafficRouting.Plugins
	succeed(t, router.SetHeaderRoute(at(ro, 0), ro.Spec.Strategy.Canary.Steps[0].SetHeaderRoute))
	succeed(t, router.SetWeight(at(ro, 1), 20, nil))
	refuse(server, httpRoutes, "app", "patch", "update")
	succeed(t, router.SetHeaderRoute(at(ro, 2), ro.Spec.Strategy.Canary.Steps[2].SetHeaderRoute))
	succeed(t, router.SetWeight(at(ro, 2), 20, nil)) // no less than what is in place
	requireEvent(t, server, trafficrouter.ReasonError, "HTTPRoute demo/app", "the route stays as it is until")
	fail(t, router.SetWeight(at(ro, 2), 0, nil), "HTTPRoute demo/app")
	requireSplit(t, router, "second", "app-stable=100 app-canary=0")
	server.SetFault(nil)
	succeed(t, router.SetWeight(at(ro, 2), 20, nil))
	requireSplit(t, router, "app", "app-stable=80 app-canary=20")
}

// managedNames returns the names of a Rollout's header and mirror routes on a route.
func managedNames(route *unstructured.Unstructured, ro *v1alpha1.Rollout) []string {
	decision, err := Apply(route, RolloutOf(ro, nil), Wanted{})
	if err != nil {
		panic(err)
	}
	var names []string
	for _, route := range decision.Managed.routes {
		names = append(names, route.Name)
	}
	return names
}

// Without a watch that shows which routes carry something of a Rollout, the weight that
// the controller has set tells: the way to analysis and abort is open.
func TestABrokenRolloutMidCanaryWithoutWatch(t *testing.T) {
	server := newServer(t, httpRoute("app"))
	succeed(t, newRouter(t, server).SetWeight(app(named), 40, nil))
	refuse(server, httpRoutes, "", "list", "watch")
	router := New(server.Config, hclog.NewNullLogger(), Options{SelfHeal: true})
	t.Cleanup(router.Close)
	broken := app(`{"httpRoute": 5}`)
	broken.Generation++
	fail(t, router.SetWeight(broken, 40, nil), "SetWeight for Rollout demo/app")
	broken.Status.Canary.Weights = &v1alpha1.TrafficWeights{Canary: v1alpha1.WeightDestination{Weight: 40}, Stable: v1alpha1.WeightDestination{Weight: 60}}
	succeed(t, router.SetWeight(broken, 40, nil))
	verified(t, router, broken, 40, types.NotVerified)
	requireEvent(t, server, trafficrouter.ReasonError, "the route stays as it is until this is corrected or the Rollout is aborted")
}

// hang leaves a request without an answer for as long as its caller waits.
func hang(r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // the server notices only then that the caller has left
	<-r.Context().Done()
}

// A list that hangs, of a kind that a Rollout does not name, holds up none of its calls.
func TestAKindThatIsNotNamedIsNotWaitedFor(t *testing.T) {
	server := newServer(t, httpRoute("app"))
	server.SetFault(func(_ http.ResponseWriter, r *http.Request, request apiservertest.Request) bool {
		if request.Resource != "grpcroutes" {
			return false
		}
		hang(r)
		return true
	})
	router := newRouter(t, server)
	began := time.Now()
	succeed(t, router.SetWeight(app(named), 20, nil))
	if took := time.Since(began); took > time.Second {
		t.Errorf("the call took %s: it has waited for the GRPCRoutes, which the Rollout does not name", took)
	}
}

// The API server refuses the header route, and always will: while a route carries
// traffic, this is reported in an Event, as the controller sets no weight after an error.
func TestAHeaderRouteThatTheAPIServerRefuses(t *testing.T) {
	server := newServer(t, httpRoute("app"))
	router := newRouter(t, server)
	ro := headers()
	step := ro.Spec.Strategy.Canary.Steps[0].SetHeaderRoute
	refuse(server, httpRoutes, "app", "patch", "update")
	fail(t, router.SetHeaderRoute(at(ro, 0), step), "HTTPRoute demo/app")
	server.SetFault(nil)
	succeed(t, router.SetWeight(at(ro, 0), 20, nil))
	refuse(server, httpRoutes, "app", "patch", "update")
	succeed(t, router.SetHeaderRoute(at(ro, 0), step))
	requireEvent(t, server, trafficrouter.ReasonError, "header route beta", "the route stays as it is until this is corrected or the Rollout is aborted")
	// A fault that may pass is an error, and the call is tried again.
	server.SetFault(func(w http.ResponseWriter, _ *http.Request, request apiservertest.Request) bool {
		if request.Verb == "patch" {
			apiservertest.Fail(w, http.StatusInternalServerError, request)
			return true
		}
		return false
	})
	fail(t, router.SetHeaderRoute(at(ro, 0), step), "HTTPRoute demo/app")
}

// If another writer changes a route so that it cannot be split, an Event on the Rollout
// says so at once, not only at the controller's next reconcile.
func TestAChangeThatCannotBePutBack(t *testing.T) {
	server := newServer(t, httpRoute("app"))
	router := newRouter(t, server)
	server.PutObject(rolloutResource, app(named))
	succeed(t, router.SetWeight(app(named), 20, nil))
	changed := stored(t, router, "app")
	changed.Object["spec"] = parse(`{spec: {rules: [{backendRefs: [{name: app-stable, weight: 50}]}]}}`).Object["spec"]
	changed.SetGeneration(changed.GetGeneration() + 1)
	changed.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl-edit", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec": {"f:rules": {}}}`)}}})
	server.PutObject(httpRoutes, changed)
	requireEvent(t, server, reasonRestored, "field manager kubectl-edit has changed HTTPRoute demo/app", "no rule has both the stable Service app-stable and the canary Service app-canary")
}

// A request that hangs for one route does not keep other routes from going to rest.
func TestARouteThatHangsKeepsNoOtherFromRest(t *testing.T) {
	both := app(`{"grpcRoute": "app", "httpRoute": "app"}`)
	for _, tc := range []struct {
		hanging, other string
		verbs          []string
	}{
		{"grpcroutes", httpRoutes, []string{"get"}},
		{httpRoutes, "grpcroutes", []string{"get"}},
		{"grpcroutes", httpRoutes, []string{"patch", "update"}},
		{httpRoutes, "grpcroutes", []string{"patch", "update"}},
	} {
		t.Run(tc.verbs[0]+" "+tc.hanging, func(t *testing.T) {
			t.Parallel()
			server := newServerOfTwoKinds(t)
			server.SetFault(func(w http.ResponseWriter, _ *http.Request, request apiservertest.Request) bool {
				refused := slices.Contains([]string{"list", "watch"}, request.Verb)
				if refused {
					apiservertest.Forbidden(w, request)
				}
				return refused
			})
			router := New(server.Config, hclog.NewNullLogger(), Options{})
			t.Cleanup(router.Close)
			succeed(t, router.SetWeight(both, 40, nil))
			router.Timeout = 5 * time.Second // with several routes, a request may take half of it
			server.SetFault(func(_ http.ResponseWriter, r *http.Request, request apiservertest.Request) bool {
				hangs := request.Resource == tc.hanging && slices.Contains(tc.verbs, request.Verb)
				if hangs {
					hang(r)
				}
				return hangs
			})
			fail(t, router.SetWeight(both, 0, nil), "demo/app: "+tc.verbs[0], "no answer from the API server")
			text, err := json.Marshal(server.Object(tc.other, "demo", "app"))
			if err != nil || !strings.Contains(string(text), `"weight":100`) {
				t.Errorf("%s: the other route is not at rest: %s, %v", tc.other, text, err)
			}
		})
	}
}

// dropPercents makes the API server drop the percentages of mirrors, as one with older CRDs.
func dropPercents(server *apiservertest.Server) {
	server.SetFault(func(_ http.ResponseWriter, r *http.Request, request apiservertest.Request) bool {
		if request.Verb == "patch" {
			r.Body = withoutPercent(r.Body)
		}
		return false
	})
}
