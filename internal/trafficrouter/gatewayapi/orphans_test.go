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
	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
)

// looking returns a router whose watches of Rollouts and routes are current.
func looking(t *testing.T, server *apiservertest.Server) *Router {
	t.Helper()
	router := newRouter(t, server)
	router.routes.watchAll(t.Context())
	eventually(t, "the watches are current", func() bool {
		_, rollouts := router.Exists(nameOf(app(named)))
		current := !slices.ContainsFunc([]Kind{HTTPRoute, GRPCRoute, TCPRoute}, func(kind Kind) bool {
			_, ok := router.routes.Keyed(string(kind))
			return !ok
		})
		return rollouts && current
	})
	server.Requests()
	return router
}

// carrying returns a route in the middle of a Rollout's canary, with weights, a header
// route and the label.
func carrying(t *testing.T, ro *v1alpha1.Rollout, route *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	of := RolloutOf(ro, nil)
	of.Label, of.UseHeaderRoutes = Label{DefaultLabelKey, DefaultLabelValue}, true
	header, err := Apply(route, of, Wanted{Calls: []RouteCall{{Header: headers().Spec.Strategy.Canary.Steps[0].SetHeaderRoute}}})
	if err != nil {
		t.Fatal(err)
	}
	weighed, err := Apply(header.Route, of, Wanted{Weights: &Weights{Stable: 60, Canary: 40}})
	if err != nil {
		t.Fatal(err)
	}
	return weighed.Route
}

// plain returns a route as text, without the metadata that the API server keeps.
func plain(t *testing.T, route *unstructured.Unstructured) string {
	t.Helper()
	route = route.DeepCopy()
	route.SetResourceVersion("")
	route.SetUID("")
	route.SetManagedFields(nil)
	route.SetGeneration(0)
	text, err := yaml.Marshal(route.Object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// An annotation that is filled with names of Rollouts costs a look no more requests than
// a route that the largest possible number of Rollouts share.
func TestManyRolloutsInAnAnnotation(t *testing.T) {
	entries := map[string]any{}
	for i := range 5000 {
		entries[fmt.Sprintf("demo/rollout-%04d", i)] = map[string]any{}
	}
	text, err := json.Marshal(entries)
	if err != nil {
		t.Fatal(err)
	}
	route := httpRoute("app")
	route.SetAnnotations(map[string]string{Annotation: string(text)})
	router := looking(t, newServer(t, route))
	if got := router.routes.Marks(t.Context()); len(got) != maxRules {
		t.Errorf("a look takes up %d Rollouts of one route, want %d", len(got), maxRules)
	}
}

// What a Rollout has left is taken off completely; what may still be a Rollout's stays.
func TestWhatARolloutHasLeftIsTakenOff(t *testing.T) {
	selecting := func(labels string) *v1alpha1.Rollout {
		return app(`{"httpRouteSelector": {"matchLabels": ` + labels + `}}`)
	}
	elsewhere := app(named)
	elsewhere.Spec.Strategy.Canary.TrafficRouting.Plugins = map[string]json.RawMessage{"other/router": json.RawMessage(`{}`)}
	blueGreen := app(named)
	blueGreen.Spec.Strategy = v1alpha1.RolloutStrategy{BlueGreen: &v1alpha1.BlueGreenStrategy{}}
	waiting := app(named)
	waiting.DeletionTimestamp, waiting.Finalizers = &metav1.Time{Time: time.Now()}, []string{"example.com/wait"}
	for name, tc := range map[string]struct {
		rollout *v1alpha1.Rollout
		owns    bool
	}{
		"it is deleted":                       {nil, false},
		"it waits for a finalizer":            {waiting, false},
		"it does not use the plugin":          {elsewhere, false},
		"it is a blue-green one now":          {blueGreen, false},
		"it names another route":              {app(`{"httpRoute": "second"}`), false},
		"it names a route of another kind":    {app(`{"grpcRoute": "app"}`), false},
		"it names one of another namespace":   {app(`{"httpRoute": "app", "namespace": "other"}`), false},
		"it selects other routes":             {selecting(`{"team": "b"}`), false},
		"it names the route":                  {app(named), true},
		"it selects the route":                {selecting(`{"team": "a"}`), true},
		"its configuration cannot be read":    {app(`{"httpRoute": 5}`), true},
		"its configuration has no route":      {app(`{}`), true},
		"its configuration has more than one": {app(`{"httpRoutes": [{"name": "other"}, {"name": "app"}]}`), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rest := httpRoute("app")
			rest.SetLabels(map[string]string{"team": "a"})
			want := carrying(t, app(named), rest)
			server := newServer(t, want)
			if tc.rollout != nil {
				server.PutObject(rolloutResource, tc.rollout)
			}
			router := looking(t, server)
			router.TakeOff(t.Context())
			if !tc.owns {
				want = rest
			}
			if diff := cmp.Diff(plain(t, want), plain(t, stored(t, router, "app"))); diff != "" {
				t.Errorf("the route (-want +got):\n%s", diff)
			}
			if !tc.owns {
				eventually(t, "an Event on the route", func() bool {
					return slices.ContainsFunc(server.Events(), func(e corev1.Event) bool {
						return e.Reason == reasonReleased && e.InvolvedObject.Kind == "HTTPRoute" && e.InvolvedObject.Name == "app" &&
							strings.Contains(e.Message, "Rollout demo/app") && strings.Contains(e.Message, "does not exist, or does not use this HTTPRoute any more")
					})
				})
			}
			// A second look finds nothing to do.
			server.Requests()
			router.TakeOff(t.Context())
			if got := server.Requests(); len(got) > 0 {
				t.Errorf("requests of a second look: %v", got)
			}
		})
	}
}

// On a route that several Rollouts share, only the deleted Rollout's part is restored;
// the label stays for the other.
func TestASharedRouteKeepsTheOthersPart(t *testing.T) {
	shared := httpRoute("app")
	rules := shared.Object["spec"].(map[string]any)["rules"].([]any)
	own := parse(`{spec: {rules: [{matches: [{path: {value: /other}}], backendRefs: [{name: other-stable, port: 80, weight: 100}, {name: other-canary, port: 80, weight: 0}]}]}}`)
	shared.Object["spec"].(map[string]any)["rules"] = append(rules, own.Object["spec"].(map[string]any)["rules"].([]any)...)
	other := app(named)
	other.Name, other.UID = "other", "u-2"
	other.Spec.Strategy.Canary.StableService, other.Spec.Strategy.Canary.CanaryService = "other-stable", "other-canary"
	server := newServer(t, carrying(t, app(named), shared))
	server.PutObject(rolloutResource, other)
	router := looking(t, server)
	succeed(t, router.SetWeight(other, 20, nil))
	router.TakeOff(t.Context())
	requireSplit(t, router, "app", "app-stable=100 app-canary=0; other-stable=80 other-canary=20")
	route := stored(t, router, "app")
	if got := RolloutsOn(route); len(got) != 1 || got[0].Rollout != nameOf(other) {
		t.Errorf("the route carries %v", got)
	}
	if value := route.GetLabels()[DefaultLabelKey]; value != DefaultLabelValue {
		t.Errorf("the label is %q", value)
	}
}

// Unless the API server says that a Rollout is absent, assume that it exists.
func TestARolloutThatCannotBeReadKeepsItsRoute(t *testing.T) {
	refused := func(verb string) apiservertest.Fault {
		return func(w http.ResponseWriter, _ *http.Request, r apiservertest.Request) bool {
			if r.Resource == rolloutResource && r.Verb == verb {
				apiservertest.Forbidden(w, r)
				return true
			}
			return false
		}
	}
	for name, fault := range map[string]apiservertest.Fault{
		"it may not be read":      refused("get"),
		"they may not be listed":  refused("list"),
		"they may not be watched": refused("watch"),
		"the API server has faults": func(w http.ResponseWriter, _ *http.Request, r apiservertest.Request) bool {
			if r.Resource == rolloutResource && r.Verb == "get" {
				apiservertest.Fail(w, http.StatusInternalServerError, r)
				return true
			}
			return false
		},
		"the API server does not know Rollouts": func(w http.ResponseWriter, _ *http.Request, r apiservertest.Request) bool {
			if r.Resource == rolloutResource && r.Verb == "get" {
				http.Error(w, "404 page not found", http.StatusNotFound)
				return true
			}
			return false
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, carrying(t, app(named), httpRoute("app")))
			asked := make(chan struct{}, 1000)
			server.SetFault(func(w http.ResponseWriter, request *http.Request, r apiservertest.Request) bool {
				if !fault(w, request, r) {
					return false
				}
				asked <- struct{}{}
				return true
			})
			router := newRouter(t, server)
			eventually(t, "the API server does not say", func() bool { router.TakeOff(t.Context()); return len(asked) > 0 })
			router.TakeOff(t.Context())
			requireSplit(t, router, "app", "app-stable=60 app-canary=40; app-canary=1")
			// The fault ends: the Rollout is absent.
			server.SetFault(nil)
			if name == "they may not be listed" || name == "they may not be watched" {
				return // the watch comes back in its own time
			}
			router.TakeOff(t.Context())
			requireSplit(t, router, "app", "app-stable=100 app-canary=0")
		})
	}
}

// A Rollout that the watch does not show yet does not count as deleted.
func TestARolloutThatTheWatchDoesNotShowKeepsItsRoute(t *testing.T) {
	server := newServer(t, carrying(t, app(named), httpRoute("app")))
	server.SetFault(func(w http.ResponseWriter, r *http.Request, request apiservertest.Request) bool {
		if request.Resource != rolloutResource || request.Verb != "watch" {
			return false
		}
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return true
	})
	router := looking(t, server)
	server.PutObject(rolloutResource, app(named))
	router.TakeOff(t.Context())
	if exists, ok := router.Exists(nameOf(app(named))); exists || !ok {
		t.Fatalf("the watch shows it: %t, %t; the test is about one that is behind", exists, ok)
	}
	requireSplit(t, router, "app", "app-stable=60 app-canary=40; app-canary=1")
}

// The deleted Rollout was the only one with TCPRoutes, and this process has never seen
// it.
func TestAnOrphanOfAKindThatNoRolloutNames(t *testing.T) {
	route := parse(`
apiVersion: gateway.networking.k8s.io/v1alpha2
kind: TCPRoute
metadata: {namespace: demo, name: app}
spec: {rules: [{backendRefs: [{name: app-stable, port: 80, weight: 1}, {name: app-canary, port: 80, weight: 0}]}]}
`)
	weighed, err := Apply(route, RolloutOf(app(named), nil), Wanted{Weights: &Weights{Stable: 60, Canary: 40}})
	if err != nil {
		t.Fatal(err)
	}
	server := newServer(t)
	server.PutObject("tcproutes", weighed.Route)
	router := looking(t, server)
	router.TakeOff(t.Context())
	got, err := router.routes.Group.Read(t.Context(), "TCPRoute", "demo", "app")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(plain(t, route), plain(t, got)); diff != "" {
		t.Errorf("the route (-want +got):\n%s", diff)
	}
}

// The API server is not asked about a Rollout whose call has written a route, until its
// spec or the route's labels change.
func TestARouteThatACallHasWrittenIsNotAskedAbout(t *testing.T) {
	server := newServer(t, httpRoute("app"))
	ro := app(named)
	server.PutObject(rolloutResource, ro)
	router := looking(t, server)
	succeed(t, router.SetWeight(ro, 20, nil))
	eventually(t, "the watch shows the write", func() bool { return len(router.routes.Marks(t.Context())) == 1 })
	server.Requests()
	router.TakeOff(t.Context())
	if got := server.Requests(); len(got) > 0 {
		t.Errorf("requests %v", got)
	}
	changed := app(`{"httpRoute": "second"}`)
	changed.Generation = 2
	server.PutObject(rolloutResource, changed)
	eventually(t, "the route goes back to rest", func() bool {
		router.TakeOff(t.Context())
		return split(stored(t, router, "app")) == "app-stable=100 app-canary=0"
	})
}

// A Rollout that is created anew between the look and the write keeps what it sets.
func TestARolloutMadeAnewMeanwhileKeepsItsRoute(t *testing.T) {
	server := newServer(t, carrying(t, app(named), httpRoute("app")))
	router := looking(t, server)
	newer, err := Apply(stored(t, router, "app"), RolloutOf(app(named), nil), Wanted{Weights: &Weights{Stable: 90, Canary: 10}})
	if err != nil {
		t.Fatal(err)
	}
	server.SetFault(func(_ http.ResponseWriter, _ *http.Request, r apiservertest.Request) bool {
		if r.Verb == "patch" {
			server.SetFault(nil)
			server.PutObject(rolloutResource, app(named))
			server.PutObject(httpRoutes, newer.Route)
		}
		return false
	})
	router.TakeOff(t.Context())
	requireSplit(t, router, "app", "app-stable=90 app-canary=10; app-canary=1")
}

// What is taken off is not put back for the deleted Rollout, and not taken for another
// writer's change.
func TestWhatIsTakenOffIsNotPutBack(t *testing.T) {
	server := newServer(t, httpRoute("app"))
	router := looking(t, server)
	ro := app(named)
	server.PutObject(rolloutResource, ro)
	succeed(t, router.SetWeight(ro, 40, nil))
	server.Delete(rolloutResource, "demo", "app")
	eventually(t, "the route goes back to rest", func() bool {
		router.TakeOff(t.Context())
		return split(stored(t, router, "app")) == "app-stable=100 app-canary=0"
	})
	eventually(t, "nothing is put back any more", func() bool { _, _, kept := router.PutsBack(nameOf(ro)); return !kept })
	requireSplit(t, router, "app", "app-stable=100 app-canary=0")
}

// The plugin is registered under two names, or by two controllers: neither registration
// takes off what the other has written for an existing Rollout.
func TestWhatAnotherRegistrationHasWrittenStays(t *testing.T) {
	server := newServer(t, httpRoute("app"))
	ro := app(named)
	ro.Spec.Strategy.Canary.TrafficRouting.Plugins = map[string]json.RawMessage{"acme/gateway": json.RawMessage(named)}
	server.PutObject(rolloutResource, ro)
	acme := New(server.Config, hclog.NewNullLogger(), Options{PluginName: "acme/gateway"})
	t.Cleanup(acme.Close)
	succeed(t, acme.SetWeight(ro, 40, nil))
	router := looking(t, server)
	router.TakeOff(t.Context())
	requireSplit(t, router, "app", "app-stable=60 app-canary=40")
	server.Delete(rolloutResource, "demo", "app")
	eventually(t, "the route goes back to rest", func() bool {
		router.TakeOff(t.Context())
		return split(stored(t, router, "app")) == "app-stable=100 app-canary=0"
	})
}

// Once a Rollout no longer names a route, another Rollout may split its rule.
func TestARuleOfARolloutThatHasMovedOn(t *testing.T) {
	server := newServer(t, httpRoute("app"), httpRoute("second"))
	router := newRouter(t, server)
	first := app(named)
	first.Name, first.UID = "first", "u-0"
	server.PutObject(rolloutResource, first)
	succeed(t, router.SetWeight(first, 20, nil))
	fail(t, router.SetWeight(app(named), 50, nil), "is split by Rollout demo/first")
	moved := first.DeepCopy()
	moved.Generation, moved.Spec.Strategy.Canary.TrafficRouting.Plugins = 2, app(`{"httpRoute": "second"}`).Spec.Strategy.Canary.TrafficRouting.Plugins
	server.PutObject(rolloutResource, moved)
	succeed(t, router.SetWeight(app(named), 50, nil))
	requireSplit(t, router, "app", "app-stable=50 app-canary=50")
}

// underWay is a Rollout with a weight of 20 in its status.
func underWay(ro *v1alpha1.Rollout) *v1alpha1.Rollout {
	ro.Status.Canary.Weights = &v1alpha1.TrafficWeights{Canary: v1alpha1.WeightDestination{Weight: 20}, Stable: v1alpha1.WeightDestination{Weight: 80}}
	return ro
}

// A Rollout is held in the middle of its canary because it names a route that does not
// exist: its routes stay as they are, and are not taken off and put back in turns.
func TestAHeldRolloutKeepsItsRoute(t *testing.T) {
	server := newServer(t, httpRoute("app"))
	server.PutObject(rolloutResource, underWay(app(named)))
	router := looking(t, server)
	succeed(t, router.SetWeight(underWay(app(named)), 20, nil))
	held := underWay(app(`{"httpRoute": "missing"}`))
	held.Generation = 2
	server.PutObject(rolloutResource, held)
	succeed(t, router.SetWeight(held, 20, nil))
	before := stored(t, router, "app").GetResourceVersion()
	server.Requests()
	eventually(t, "the edited Rollout is asked about", func() bool {
		router.TakeOff(t.Context())
		return slices.ContainsFunc(server.Requests(), func(r apiservertest.Request) bool { return r.Resource == rolloutResource && r.Verb == "get" })
	})
	router.TakeOff(t.Context())
	if got := stored(t, router, "app").GetResourceVersion(); got != before {
		t.Error("the route is written")
	}
	requireSplit(t, router, "app", "app-stable=80 app-canary=20")
	succeed(t, router.SetWeight(held, 20, nil))
	// Once it is aborted, the weight is 0, and what is left is taken off.
	aborted := app(`{"httpRoute": "missing"}`)
	aborted.Generation, aborted.Status.Abort = 2, true
	server.PutObject(rolloutResource, aborted)
	eventually(t, "what is left is taken off", func() bool {
		router.TakeOff(t.Context())
		return split(stored(t, router, "app")) == "app-stable=100 app-canary=0"
	})
}

// A route whose labels no longer match the selector goes to rest at the next SetWeight;
// until then, what a call has decided is put back.
func TestARouteThatIsNoLongerSelected(t *testing.T) {
	chosen := httpRoute("app")
	chosen.SetLabels(map[string]string{"team": "a"})
	other := httpRoute("second")
	other.SetLabels(map[string]string{"team": "a"})
	server := newServer(t, chosen, other)
	ro := underWay(app(`{"httpRouteSelector": {"matchLabels": {"team": "a"}}}`))
	server.PutObject(rolloutResource, ro)
	router := looking(t, server)
	succeed(t, router.SetWeight(ro, 20, nil))
	route := stored(t, router, "app")
	labels := route.GetLabels()
	delete(labels, "team")
	route.SetLabels(labels)
	server.PutObject(httpRoutes, route)
	eventually(t, "the watch shows the change", func() bool { _, ok := watched(router).GetLabels()["team"]; return !ok })
	before := stored(t, router, "app").GetResourceVersion()
	router.TakeOff(t.Context())
	if got := stored(t, router, "app").GetResourceVersion(); got != before {
		t.Error("the route is written")
	}
	requireSplit(t, router, "app", "app-stable=80 app-canary=20")
	succeed(t, router.SetWeight(ro, 20, nil))
	requireSplit(t, router, "app", "app-stable=100 app-canary=0")
	requireSplit(t, router, "second", "app-stable=80 app-canary=20")
}
