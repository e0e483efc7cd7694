package gatewayapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter"
)

// world is a cluster with a router that repairs only when it is told to.
type world struct {
	server *apiservertest.Server
	router *Router
	store  *countingStore
}

// countingStore counts the reads of a router's calls.
type countingStore struct {
	*store
	reads atomic.Int32
	// blind makes the router remember no call.
	blind atomic.Bool
}

func (s *countingStore) Find(ctx context.Context, q trafficrouter.Query) ([]*unstructured.Unstructured, error) {
	s.reads.Add(1)
	return s.store.Find(ctx, q)
}

func (s *countingStore) States(q trafficrouter.Query) ([]kube.State, bool) {
	if s.blind.Load() {
		return nil, false
	}
	return s.store.States(q)
}

func newWorld(t *testing.T, forgetful bool) *world {
	w := &world{server: newServer(t, httpRoute("app"), httpRoute("second")), store: &countingStore{}}
	w.store.blind.Store(forgetful)
	w.router = newRouterOf(w.server.Config, hclog.NewNullLogger(), Options{SelfHeal: true}, func(s *store) routes {
		w.store.store = s
		return w.store
	})
	t.Cleanup(w.router.Close)
	w.settle(t)
	return w
}

// settle waits until the router's watch shows what the API server has.
func (w *world) settle(t *testing.T) {
	t.Helper()
	shown := func() bool {
		if _, ok, err := w.router.routes.Indexed(t.Context(), "HTTPRoute", "none", time.Second); !ok || err != nil {
			return false
		}
		for _, name := range []string{"app", "second"} {
			want := kube.State{}
			if route := w.route(name); route != nil {
				want = kube.StateOf(route)
			}
			if got, ok := w.router.routes.State("HTTPRoute", "demo", name); !ok || got != want {
				return false
			}
		}
		return true
	}
	for deadline := time.Now().Add(time.Minute); !shown(); time.Sleep(200 * time.Microsecond) {
		if time.Now().After(deadline) {
			t.Fatal("the watch does not show what the API server has within a minute")
		}
	}
}

// routes returns the stored routes as text; their resourceVersion shows how often they
// were written.
func (w *world) routes() string {
	var all []*unstructured.Unstructured
	for _, name := range []string{"app", "second"} {
		route := w.route(name)
		if route != nil {
			route.SetManagedFields(nil) // they contain times
		}
		all = append(all, route)
	}
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		panic(err)
	}
	return string(text)
}

// change changes a route as another writer does.
func (w *world) change(name string, change func(*unstructured.Unstructured)) {
	if route := w.route(name); route != nil {
		change(route)
		w.server.PutObject(httpRoutes, route)
	}
}

// route returns a stored route, nil if it does not exist.
func (w *world) route(name string) *unstructured.Unstructured {
	object := w.server.Object(httpRoutes, "demo", name)
	if object == nil {
		return nil
	}
	text, err := json.Marshal(object)
	route := &unstructured.Unstructured{}
	if err := errors.Join(err, route.UnmarshalJSON(text)); err != nil {
		panic(err)
	}
	return route
}

// step is something that happens in a world; do returns its outcome as text.
type step struct {
	name   string
	do     func(*world) string
	isCall bool
}

// subject is a Rollout and what the controller asks for at each of its reconciles.
type subject struct {
	ro          *v1alpha1.Rollout
	weight      int32
	experiments []v1alpha1.WeightDestination
	header      *v1alpha1.SetHeaderRoute
	mirror      *v1alpha1.SetMirrorRoute
	removes     bool // whether a reconcile begins with RemoveManagedRoutes
}

// reconcile returns the calls of one reconcile.
func (s subject) reconcile() (calls []step) {
	ro, weight, experiments := s.ro.DeepCopy(), s.weight, s.experiments
	if s.removes {
		calls = append(calls, step{"RemoveManagedRoutes", func(w *world) string { return w.router.RemoveManagedRoutes(ro).Error() }, true})
	}
	if s.header != nil {
		calls = append(calls, step{"SetHeaderRoute", func(w *world) string { return w.router.SetHeaderRoute(ro, s.header).Error() }, true})
	}
	if s.mirror != nil {
		calls = append(calls, step{"SetMirrorRoute", func(w *world) string { return w.router.SetMirrorRoute(ro, s.mirror).Error() }, true})
	}
	return append(calls,
		step{"SetWeight", func(w *world) string { return w.router.SetWeight(ro, weight, experiments).Error() }, true},
		step{"VerifyWeight", func(w *world) string {
			got, err := w.router.VerifyWeight(ro, weight, experiments)
			return fmt.Sprint(got, err)
		}, true})
}

// ask makes the controller ask for something else.
func (g generator) ask(s *subject) {
	switch g.IntN(4) {
	case 0:
		s.weight = []int32{0, 20, 50}[g.IntN(3)]
	case 1:
		s.experiments = nil
		if g.IntN(2) == 0 {
			s.experiments = []v1alpha1.WeightDestination{{ServiceName: "app-experiment", PodTemplateHash: "x", Weight: int32(g.IntN(3) * 10)}}
		}
	case 2:
		s.removes = g.IntN(2) == 0
	case 3:
		s.header, s.mirror = nil, nil
		match := []v1alpha1.HeaderRoutingMatch{{HeaderName: "X-Beta", HeaderValue: &v1alpha1.StringMatch{Exact: []string{"yes", "no"}[g.IntN(2)]}}}
		switch g.IntN(5) {
		case 0:
			s.header = &v1alpha1.SetHeaderRoute{Name: "beta"}
		case 1:
			s.header = &v1alpha1.SetHeaderRoute{Name: "beta", Match: match}
		case 2:
			s.mirror = &v1alpha1.SetMirrorRoute{Name: "shadow", Match: []v1alpha1.RouteMatch{{Method: &v1alpha1.StringMatch{Exact: "GET"}}}}
		}
	}
}

// editOf changes a Rollout, in most cases without a new generation: a call depends on the
// Rollout that it is given.
func (g generator) editOf(ro *v1alpha1.Rollout) {
	canary := ro.Spec.Strategy.Canary
	switch g.IntN(10) {
	case 0:
		ro.Status.Abort = !ro.Status.Abort
	case 1:
		index := g.Int32N(3)
		ro.Status.CurrentStepIndex = &index
	case 2:
		weight := int32(100 + 100*g.IntN(2))
		canary.TrafficRouting.MaxTrafficWeight = &weight
	case 3:
		canary.TrafficRouting.ManagedRoutes = [][]v1alpha1.MangedRoutes{nil, {{Name: "beta"}, {Name: "shadow"}}, {{Name: "shadow"}, {Name: "beta"}}}[g.IntN(3)]
	case 4:
		canary.PingPong = nil
		if g.IntN(2) == 0 {
			canary.PingPong = &v1alpha1.PingPongSpec{PingService: "app-stable", PongService: "app-canary"}
		}
	case 5:
		ro.Status.Canary.StablePingPong = []v1alpha1.PingPongType{v1alpha1.PPPing, v1alpha1.PPPong}[g.IntN(2)]
	case 6:
		ro.Generation++
	default:
		configs := []string{
			named, named, named, named, named, `{"httpRoute": "app", "verification": "off"}`, `{"httpRoutes": [{"name": "app", "useHeaderRoutes": true}, {"name": "second"}]}`,
			`{"httpRoute": "second"}`, `{"httpRouteSelector": {"matchLabels": {"tier": "web"}}}`, `{"httpRoute": "app", "inProgressLabelKey": "busy"}`,
			`{"httpRoute": "app", "unknown": 1}`, `{"httpRoute": "missing"}`, `{"httpRoute": 5}`,
		}
		canary.TrafficRouting.Plugins = map[string]json.RawMessage{DefaultPluginName: json.RawMessage(configs[g.IntN(len(configs))])}
	}
}

// foreign returns something that happens beside the calls.
func (g generator) foreign(ro *v1alpha1.Rollout) step {
	name := []string{"app", "app", "second"}[g.IntN(3)]
	weight, accepted := int64(10*g.IntN(10)), g.IntN(3) > 0
	object := ro.DeepCopy()
	spec := func(r *unstructured.Unstructured, change func()) {
		change()
		r.SetGeneration(r.GetGeneration() + 1)
	}
	steps := []step{
		{name: "git", do: func(w *world) string {
			w.change(name, func(r *unstructured.Unstructured) {
				spec(r, func() { r.Object["spec"] = httpRoute(name).Object["spec"] })
			})
			return ""
		}},
		{name: "another weight", do: func(w *world) string {
			w.change(name, func(r *unstructured.Unstructured) {
				spec(r, func() {
					rules := objects(r.Object["spec"].(map[string]any)["rules"])
					objects(rules[0]["backendRefs"])[0]["weight"] = weight
				})
			})
			return ""
		}},
		{name: "labels", do: func(w *world) string {
			w.change(name, func(r *unstructured.Unstructured) {
				r.SetLabels([]map[string]string{nil, {"tier": "web"}}[weight/10%2])
			})
			return ""
		}},
		{name: "the annotation goes", do: func(w *world) string {
			w.change(name, func(r *unstructured.Unstructured) { r.SetAnnotations(nil) })
			return ""
		}},
		{name: "made anew", do: func(w *world) string {
			w.server.Delete(httpRoutes, "demo", name)
			w.server.PutObject(httpRoutes, httpRoute(name))
			return ""
		}},
		{name: "deleted", do: func(w *world) string {
			w.server.Delete(httpRoutes, "demo", name)
			return ""
		}},
		{name: "made", do: func(w *world) string {
			if w.route(name) == nil {
				w.server.PutObject(httpRoutes, httpRoute(name))
			}
			return ""
		}},
		{name: "reported", do: func(w *world) string {
			w.change(name, func(r *unstructured.Unstructured) {
				r.Object["status"] = reported(r, r.GetGeneration(), r.GetGeneration(), accepted, "x").Object["status"]
			})
			return ""
		}},
		{name: "the Rollout is stored", do: func(w *world) string {
			w.server.PutObject(rolloutResource, object)
			return ""
		}},
		{name: "the Rollout is deleted", do: func(w *world) string {
			w.server.Delete(rolloutResource, object.Namespace, object.Name)
			return ""
		}},
		{name: "time goes by", do: func(w *world) string {
			w.router.routes.reports.backdate(reportPatience + time.Second)
			return ""
		}},
		{name: "repair", do: func(w *world) string { return w.repair(object) }},
	}
	return steps[g.IntN(len(steps))]
}

// repair runs the repair of each route that is kept for a Rollout.
func (w *world) repair(ro *v1alpha1.Rollout) string {
	_, kept, _ := w.router.PutsBack(nameOf(ro))
	said := ""
	for _, name := range []string{"app", "second"} {
		ref := refOf(httpRoute(name))
		if _, ok := kept[ref]; ok {
			said += fmt.Sprint(ref, w.router.PutBackOnce(context.Background(), ref), " ")
		}
	}
	return said
}

// upToDate removes reports on former generations: a call would wait for the next report.
func upToDate(w *world) {
	for _, name := range []string{"app", "second"} {
		if slices.ContainsFunc(parentsOf(w.route(name), nil), func(p Parent) bool { return p.State == Behind }) {
			w.change(name, func(r *unstructured.Unstructured) { delete(r.Object, "status") })
		}
	}
}

// A router that remembers unchanged calls and one that forgets them do the same, in any
// order of calls, edits of Rollouts and changes by others: they give the same answers,
// write the same routes as often, keep the same state to put back, and send the same
// Events.
func TestMemoryChangesNothing(t *testing.T) {
	var answered, made atomic.Int32
	t.Run("seeds", func(t *testing.T) {
		for seed := range uint64(12) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				g := generator{rand.New(rand.NewPCG(seed, 12))}
				worlds := []*world{newWorld(t, false), newWorld(t, true)}
				subjects := []*subject{{ro: app(named), weight: 20}, {ro: app(named)}}
				subjects[1].ro.Name, subjects[1].ro.UID = "other", "u-2"
				story := ""
				happens := func(next step, on *v1alpha1.Rollout) {
					story += on.Name + ": " + next.name + "\n"
					var said, routes []string
					var kept [][]any
					for _, w := range worlds {
						upToDate(w)
						w.settle(t)
						before := w.store.reads.Load()
						said = append(said, next.do(w))
						if next.isCall && before == w.store.reads.Load() {
							answered.Add(1)
						}
						routes = append(routes, w.routes())
						kept = append(kept, append(w.kept(subjects[0].ro), w.kept(subjects[1].ro)...))
					}
					if next.isCall {
						made.Add(1)
					}
					if diff := gocmp.Diff(said, []string{said[1], said[1]}) + gocmp.Diff(routes[0], routes[1]); diff != "" {
						t.Fatalf("another answer, or other routes (-with memory +without):\n%s\nafter\n%s", diff, story)
					}
					if !reflect.DeepEqual(kept[0], kept[1]) {
						t.Fatalf("something else is put back, with memory and without:\n%+v\n%+v\nafter\n%s", kept[0], kept[1], story)
					}
				}
				for range 50 {
					s := subjects[min(1, g.IntN(4)/3)]
					switch g.IntN(6) {
					case 0, 1:
						g.editOf(s.ro)
					case 2:
						g.ask(s)
					case 3, 4:
						happens(g.foreign(s.ro), s.ro)
					}
					for range 1 + g.IntN(4) {
						for _, call := range s.reconcile() {
							happens(call, s.ro)
						}
					}
				}
				eventually(t, "both write the same Events", func() bool { return slices.Equal(worlds[0].events(), worlds[1].events()) })
			})
		}
	})
	t.Logf("%d of %d calls were answered from memory", answered.Load(), made.Load())
	if answered.Load() < made.Load()/10 {
		t.Errorf("%d of %d calls were answered from memory: too few to show anything", answered.Load(), made.Load())
	}
}

// kept returns what is put back for a Rollout, and on which routes.
func (w *world) kept(ro *v1alpha1.Rollout) []any {
	plan, objects, ok := w.router.PutsBack(nameOf(ro))
	return []any{plan.Weights, plan.Unconfigured, objects, ok}
}

func (w *world) events() []string {
	var all []string
	for _, e := range w.server.Events() {
		all = append(all, e.Reason+" "+e.Message)
	}
	slices.SortFunc(all, cmp.Compare[string])
	return all
}

// A call that finds everything as the last one did costs a fraction of deciding: it
// decodes nothing. After a change of anything that it has read, it decides anew.
func TestAnUnchangedCallDecodesNothing(t *testing.T) {
	w := newWorld(t, false)
	ro := app(named)
	for _, weight := range []int32{20, 0} {
		reconcile := func() {
			succeed(t, w.router.RemoveManagedRoutes(ro))
			succeed(t, w.router.SetWeight(ro, weight, nil))
			if _, err := w.router.VerifyWeight(ro, weight, nil); err.HasError() {
				t.Fatal(err)
			}
		}
		reconcile()
		w.settle(t)
		w.change("app", func(r *unstructured.Unstructured) {
			r.Object["status"] = reported(r, r.GetGeneration(), r.GetGeneration(), true, "x").Object["status"]
		})
		w.settle(t)
		reconcile()
		before := w.store.reads.Load()
		remembered := testing.AllocsPerRun(20, reconcile)
		if reads := w.store.reads.Load() - before; reads > 0 {
			t.Errorf("at weight %d unchanged calls read %d times", weight, reads)
		}
		w.store.blind.Store(true)
		decided := testing.AllocsPerRun(20, reconcile)
		w.store.blind.Store(false)
		if remembered*4 > decided {
			t.Errorf("at weight %d unchanged calls take %v allocations, and %v without memory", weight, remembered, decided)
		}
	}
}

// A call decides anew after a change of anything that it depends on.
func TestWhatACallIsRememberedBy(t *testing.T) {
	type asked struct {
		ro          *v1alpha1.Rollout
		weight      int32
		experiments []v1alpha1.WeightDestination
	}
	experiments := []v1alpha1.WeightDestination{{ServiceName: "app-experiment", PodTemplateHash: "x", Weight: 10}}
	for name, change := range map[string]func(*world, *asked){
		"nothing":     func(*world, *asked) {},
		"weight":      func(_ *world, a *asked) { a.weight = 30 },
		"experiments": func(_ *world, a *asked) { a.experiments = experiments },
		"configuration": func(_ *world, a *asked) {
			a.ro.Spec.Strategy.Canary.TrafficRouting.Plugins = app(`{"httpRoute": "second"}`).Spec.Strategy.Canary.TrafficRouting.Plugins
		},
		"stable Service": func(_ *world, a *asked) { a.ro.Spec.Strategy.Canary.StableService = "other" },
		"canary Service": func(_ *world, a *asked) { a.ro.Spec.Strategy.Canary.CanaryService = "other" },
		"pingPong": func(_ *world, a *asked) {
			a.ro.Spec.Strategy.Canary.PingPong = &v1alpha1.PingPongSpec{PingService: "app-canary", PongService: "app-stable"}
		},
		"maxTrafficWeight": func(_ *world, a *asked) {
			most := int32(200)
			a.ro.Spec.Strategy.Canary.TrafficRouting.MaxTrafficWeight = &most
		},
		"managedRoutes": func(_ *world, a *asked) {
			a.ro.Spec.Strategy.Canary.TrafficRouting.ManagedRoutes = []v1alpha1.MangedRoutes{{Name: "beta"}}
		},
		"generation": func(_ *world, a *asked) { a.ro.Generation++ },
		"step":       func(_ *world, a *asked) { step := int32(1); a.ro.Status.CurrentStepIndex = &step },
		"abort":      func(_ *world, a *asked) { a.ro.Status.Abort = true },
		"uid":        func(_ *world, a *asked) { a.ro.UID = "u-9" },
		"route": func(w *world, _ *asked) {
			w.change("app", func(r *unstructured.Unstructured) { r.SetAnnotations(nil) })
		},
		"the route is gone": func(w *world, _ *asked) { w.server.Delete(httpRoutes, "demo", "app") },
		"what parents say": func(w *world, _ *asked) {
			w.change("app", func(r *unstructured.Unstructured) {
				r.Object["status"] = reported(r, r.GetGeneration(), r.GetGeneration(), false, "x").Object["status"]
			})
		},
		"another route carries the Rollout": func(w *world, _ *asked) {
			annotation := w.route("app").GetAnnotations()
			annotation[Annotation] = strings.ReplaceAll(annotation[Annotation], "demo/app\",\"rules", "demo/second\",\"rules")
			annotation[Annotation] = strings.Replace(annotation[Annotation], `"route":"demo/app"`, `"route":"demo/second"`, 1)
			w.change("second", func(r *unstructured.Unstructured) { r.SetAnnotations(annotation) })
		},
		"no watch": func(w *world, _ *asked) { w.router.routes.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, false)
			a := &asked{ro: app(named), weight: 20}
			remembered := func() bool {
				before := w.store.reads.Load()
				_ = w.router.SetWeight(a.ro, a.weight, a.experiments)
				return before == w.store.reads.Load()
			}
			for range 2 {
				succeed(t, w.router.SetWeight(a.ro, a.weight, a.experiments))
				w.settle(t)
			}
			if !remembered() {
				t.Fatal("an unchanged call is not remembered")
			}
			change(w, a)
			if name == "nothing" {
				w.settle(t)
				if !remembered() {
					t.Error("an unchanged call decides anew")
				}
				return
			}
			eventually(t, "the call decides anew", func() bool { return !remembered() })
		})
	}
}

// Routes are found by labels, too: one more selected route makes a call decide anew.
func TestWhatASelectorFindsIsRemembered(t *testing.T) {
	w := newWorld(t, false)
	ro := app(`{"httpRouteSelector": {"matchLabels": {"tier": "web"}}}`)
	label := func(r *unstructured.Unstructured) { r.SetLabels(map[string]string{"tier": "web"}) }
	w.change("app", label)
	w.settle(t)
	for range 3 {
		succeed(t, w.router.SetWeight(ro, 20, nil))
		w.settle(t)
	}
	w.change("second", label)
	w.settle(t)
	succeed(t, w.router.SetWeight(ro, 20, nil))
	requireSplit(t, w.router, "second", "app-stable=80 app-canary=20")
}

// What no watch shows is read at each call: here the Service of an experiment.
func TestACallThatHasAProblemIsNotRemembered(t *testing.T) {
	w := newWorld(t, false)
	ro := app(named)
	experiments := []v1alpha1.WeightDestination{{ServiceName: "app-experiment", PodTemplateHash: "x", Weight: 10}}
	for range 3 {
		succeed(t, w.router.SetWeight(ro, 0, experiments))
		w.settle(t)
	}
	requireSplit(t, w.router, "app", "app-stable=100 app-canary=0")
	for _, name := range []string{"app-stable", "app-experiment"} {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}}}
		w.server.PutObject("services", service)
	}
	succeed(t, w.router.SetWeight(ro, 0, experiments))
	requireSplit(t, w.router, "app", "app-stable=90 app-canary=0 app-experiment=10")
}

// A header route that a step removes, and whose removal the API server has refused, goes with
// the next weight, also from a plugin that was started again meanwhile.
func TestARefusedRemovalOutlivesThePlugin(t *testing.T) {
	server := newServer(t, httpRoute("app"))
	router := newRouter(t, server)
	ro := headers()
	steps := ro.Spec.Strategy.Canary.Steps
	succeed(t, router.SetHeaderRoute(at(ro, 0), steps[0].SetHeaderRoute))
	succeed(t, router.SetWeight(at(ro, 1), 20, nil))
	refuse(server, httpRoutes, "app", "patch", "update")
	succeed(t, router.SetHeaderRoute(at(ro, 2), steps[2].SetHeaderRoute))
	succeed(t, router.SetWeight(at(ro, 2), 20, nil)) // held
	server.SetFault(nil)
	router.Close()
	router = newRouter(t, server)
	succeed(t, router.SetWeight(at(ro, 3), 60, nil))
	requireSplit(t, router, "app", "app-stable=40 app-canary=60")
}
