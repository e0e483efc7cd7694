package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/rollout/trafficrouting/plugin/rpc"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/plugintest"
)

// newServer serves these HTTPRoutes, at rest.
func newServer(t *testing.T, names ...string) *apiservertest.Server {
	server := apiservertest.New(t)
	server.Serve(group, apiservertest.Version{Name: "v1", Kinds: map[string]string{"HTTPRoute": httpRoutes}})
	for _, name := range names {
		server.PutObject(httpRoutes, object(name, 1, 0))
	}
	return server
}

// named is the Rollout of that name, whose route has the same name.
func named(name string) *v1alpha1.Rollout {
	ro := rollout()
	ro.Name = name
	ro.Spec.Strategy.Canary.TrafficRouting.Plugins = map[string]json.RawMessage{"acme/gateway": json.RawMessage(fmt.Sprintf(`{"httpRoute": %q}`, name))}
	return ro
}

func headerRoute() *v1alpha1.SetHeaderRoute {
	return &v1alpha1.SetHeaderRoute{Name: "beta", Match: []v1alpha1.HeaderRoutingMatch{{HeaderName: "X-Beta", HeaderValue: &v1alpha1.StringMatch{Exact: "yes"}}}}
}

func mirrorRoute() *v1alpha1.SetMirrorRoute {
	return &v1alpha1.SetMirrorRoute{Name: "shadow", Match: []v1alpha1.RouteMatch{{Method: &v1alpha1.StringMatch{Exact: "GET"}}}}
}

// spec is the spec of a route as the API server has it.
func spec(t *testing.T, server *apiservertest.Server, name string) string {
	t.Helper()
	text, err := json.Marshal(server.Object(httpRoutes, "demo", name)["spec"])
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// answered returns what a call says, and fails the test if that takes a minute: the plugin
// bounds its calls itself.
func answered(t *testing.T, what string, call func() string) string {
	t.Helper()
	said := make(chan string, 1)
	go func() { said <- call() }()
	select {
	case text := <-said:
		return text
	case <-time.After(time.Minute):
		t.Errorf("%s has not been answered within a minute", what)
		return ""
	}
}

// warned waits for an Event about a route, and returns what it says.
func warned(t *testing.T, server *apiservertest.Server, route string) (said string) {
	t.Helper()
	plugintest.Eventually(t, "an Event about HTTPRoute "+route, func() bool {
		for _, event := range server.Events() {
			if strings.Contains(event.Message, "HTTPRoute demo/"+route) {
				said = event.Message
			}
		}
		return said != ""
	})
	return said
}

// Whatever fault of the API server a plugin's write meets, it is the error of the call,
// and changes no route; calls that need no write succeed. Once the fault is over, all
// calls succeed. A header or mirror route that is refused beside a weight is an Event: the
// controller would set no weight after an error.
func TestFaultsOverRPC(t *testing.T) {
	// Each call is for a Rollout of its own: the controller makes them at the same time.
	writing := map[string]func(rpc.TrafficRouterPlugin, *v1alpha1.Rollout) types.RpcError{
		"higher": func(r rpc.TrafficRouterPlugin, ro *v1alpha1.Rollout) types.RpcError { return r.SetWeight(ro, 50, nil) },
		"zero":   func(r rpc.TrafficRouterPlugin, ro *v1alpha1.Rollout) types.RpcError { return r.SetWeight(ro, 0, nil) },
		"header": func(r rpc.TrafficRouterPlugin, ro *v1alpha1.Rollout) types.RpcError {
			return r.SetHeaderRoute(ro, headerRoute())
		},
		"mirror": func(r rpc.TrafficRouterPlugin, ro *v1alpha1.Rollout) types.RpcError {
			return r.SetMirrorRoute(ro, mirrorRoute())
		},
	}
	after := map[string]string{"higher": `"weight":50`, "zero": `"weight":0`, "header": "X-Beta", "mirror": "requestMirror"}
	for name, tc := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request, apiservertest.Request)
		want   string
	}{
		"forbidden": {func(w http.ResponseWriter, _ *http.Request, r apiservertest.Request) { apiservertest.Forbidden(w, r) },
			"may not patch httproutes.gateway.networking.k8s.io: apply ClusterRole argo-rollouts-gatewayapi"},
		"conflict": {func(w http.ResponseWriter, _ *http.Request, r apiservertest.Request) { apiservertest.Conflict(w, r) },
			"it keeps being changed by others"},
		"too busy": {func(w http.ResponseWriter, _ *http.Request, r apiservertest.Request) {
			apiservertest.ComeBack(w, http.StatusTooManyRequests, 30, r)
		}, "asks to come back in 30 s"},
		"hanging": {func(_ http.ResponseWriter, r *http.Request, _ apiservertest.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // only a server that has read the body sees the client leave
			<-r.Context().Done()
		}, "no answer from the API server within 10s"},
		"cut": {func(http.ResponseWriter, *http.Request, apiservertest.Request) { panic(http.ErrAbortHandler) },
			"patch failed; the route stays as it is"},
	} {
		t.Run(name, func(t *testing.T) {
			server := newServer(t, "higher", "zero", "header", "mirror", "removed")
			router, _ := plugintest.Start(t, installed, server.Kubeconfig())
			before := map[string]string{}
			for _, app := range []string{"higher", "zero", "header", "mirror", "removed"} {
				succeed(t, router.SetWeight(named(app), 20, nil))
				before[app] = spec(t, server, app)
			}
			succeed(t, router.SetHeaderRoute(named("removed"), headerRoute()))
			before["removed"] = spec(t, server, "removed")
			server.SetFault(func(w http.ResponseWriter, r *http.Request, request apiservertest.Request) bool {
				if request.Verb != "patch" && request.Verb != "update" {
					return false
				}
				tc.answer(w, r, request)
				return true
			})
			var calls sync.WaitGroup
			for app, call := range writing {
				calls.Go(func() {
					said := answered(t, app, func() string { return call(router, named(app)).Error() })
					if name == "forbidden" && app != "zero" {
						if said != "" {
							t.Errorf("%s says %q", app, said)
						}
						said = warned(t, server, app)
					}
					if !strings.Contains(said, tc.want) || !strings.Contains(said, "HTTPRoute demo/"+app) {
						t.Errorf("%s says %q, want %q", app, said, tc.want)
					}
				})
			}
			// After an error, the controller would not go on to set the weight.
			calls.Go(func() {
				if said := answered(t, "RemoveManagedRoutes", func() string { return router.RemoveManagedRoutes(named("removed")).Error() }); said != "" {
					t.Errorf("RemoveManagedRoutes says %q", said)
				}
			})
			calls.Wait()
			succeed(t, router.UpdateHash(named("higher"), "new", "old", nil))
			if got, err := router.VerifyWeight(named("higher"), 50, nil); err.HasError() || got != types.NotVerified {
				t.Errorf("VerifyWeight = %d, %v", got, err)
			}
			for app := range before {
				if diff := cmp.Diff(before[app], spec(t, server, app)); diff != "" {
					t.Errorf("HTTPRoute %s has changed:\n%s", app, diff)
				}
			}
			server.SetFault(nil)
			for app, call := range writing {
				succeed(t, call(router, named(app)))
				if got := spec(t, server, app); !strings.Contains(got, after[app]) {
					t.Errorf("HTTPRoute %s lacks %s: %s", app, after[app], got)
				}
			}
			succeed(t, router.SetWeight(named("removed"), 20, nil)) // also removes the header route
			if got := spec(t, server, "removed"); strings.Contains(got, "X-Beta") || !strings.Contains(got, `"weight":20`) {
				t.Errorf("HTTPRoute removed: %s", got)
			}
		})
	}
}

// A plugin that is started before its API server answers serves once it does.
func TestStartsWithoutACluster(t *testing.T) {
	server := newServer(t, "app")
	address, listen := plugintest.Later(t, server.URL())
	router, _ := plugintest.Start(t, installed, strings.ReplaceAll(server.Kubeconfig(), server.URL(), address))
	ro := named("app")
	succeed(t, router.RemoveManagedRoutes(ro))
	if err := router.SetWeight(ro, 20, nil); !strings.Contains(err.Error(), "SetWeight for Rollout demo/app") {
		t.Fatalf("SetWeight without a cluster: %v", err)
	}
	if got, err := router.VerifyWeight(ro, 20, nil); err.HasError() || got != types.NotVerified {
		t.Fatalf("VerifyWeight without a cluster: %d, %v", got, err)
	}
	listen()
	succeed(t, router.SetWeight(ro, 20, nil))
	if got := spec(t, server, "app"); !strings.Contains(got, `"weight":20`) {
		t.Errorf("the route: %s", got)
	}
}

// A plugin that is killed in the middle of a canary is restarted by the controller. It
// writes nothing that the route already has, undoes changes of other writers, and knows
// from the route alone what to remove in the end.
func TestKilledMidCanary(t *testing.T) {
	server := newServer(t, "app")
	rest := spec(t, server, "app")
	ro := named("app")
	ro.UID = "u-1"
	server.PutObject("rollouts", ro)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(server.Kubeconfig()), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", kubeconfig)
	start := func() (router rpc.TrafficRouterPlugin, kill func()) {
		client := plugintest.Client(installed, io.Discard)
		t.Cleanup(client.Kill)
		router, err := plugintest.Dispense(client)
		if err != nil {
			t.Fatal(err)
		}
		succeed(t, router.InitPlugin())
		return router, func() {
			process, err := os.FindProcess(client.ReattachConfig().Pid)
			if err == nil {
				err = process.Kill()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	router, kill := start()
	succeed(t, router.SetHeaderRoute(ro, headerRoute()))
	succeed(t, router.SetWeight(ro, 20, nil))
	canary := spec(t, server, "app")
	kill()
	if err := router.SetWeight(ro, 50, nil); !err.HasError() {
		t.Fatal("a plugin that was killed answers")
	}

	router, _ = start()
	server.Requests()
	succeed(t, router.SetWeight(ro, 20, nil))
	for _, r := range server.Requests() {
		if r.Verb == "patch" || r.Verb == "update" {
			t.Errorf("the new plugin has sent %s", r)
		}
	}
	git := server.Object(httpRoutes, "demo", "app")
	git["spec"] = object("app", 1, 0)["spec"]
	server.PutObject(httpRoutes, git)
	for deadline := time.Now().Add(time.Minute); spec(t, server, "app") != canary; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the canary's route is not put back within a minute: %s", spec(t, server, "app"))
		}
	}
	succeed(t, router.RemoveManagedRoutes(ro))
	succeed(t, router.SetWeight(ro, 0, nil))
	if diff := cmp.Diff(rest, spec(t, server, "app")); diff != "" {
		t.Errorf("the route at rest (-before +after):\n%s", diff)
	}
}

// Calls for a Rollout that its Gateway or its rule refuses, and for an idle one, return at
// once: fifty of these Rollouts, reconciled again and again, leave the controller's ten
// workers to others. (A call that waited for a report would hold a worker for 2 seconds.)
func TestFiftyRefusedAndIdleRollouts(t *testing.T) {
	const each, rounds, workers = 25, 3, 10
	server := newServer(t, "healthy")
	refused := func(i int) string { return fmt.Sprintf("refused-%d", i) }
	idle := func(i int) string { return fmt.Sprintf("idle-%d", i) }
	for i := range each {
		// The Gateway refuses each generation.
		server.PutObject(httpRoutes, reported(object(refused(i), 1, 0), "False", 1<<30))
		// The Gateway is behind, or the route is missing.
		if i%2 == 0 {
			server.PutObject(httpRoutes, reported(object(idle(i), 1, 0), "True", -1))
		}
	}
	router, _ := plugintest.Start(t, installed, server.Kubeconfig())
	for i := range each {
		succeed(t, router.SetWeight(named(refused(i)), 20, nil))
	}
	healthy := named("healthy")
	succeed(t, router.SetWeight(healthy, 20, nil))
	intruder := named("intruder") // on the rule of healthy
	intruder.Spec.Strategy.Canary.TrafficRouting.Plugins = healthy.Spec.Strategy.Canary.TrafficRouting.Plugins
	server.PutObject("rollouts", healthy)

	var reconciles atomic.Int32
	work := make(chan func())
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for reconcile := range work {
				reconcile()
				reconciles.Add(1)
			}
		})
	}
	began := time.Now()
	for range rounds {
		for i := range each {
			work <- func() {
				succeed(t, router.SetWeight(named(refused(i)), 20, nil))
				if got, err := router.VerifyWeight(named(refused(i)), 20, nil); err.HasError() || got != types.NotVerified {
					t.Errorf("VerifyWeight of %s = %d, %v", refused(i), got, err)
				}
			}
			work <- func() {
				succeed(t, router.RemoveManagedRoutes(named(idle(i))))
				succeed(t, router.SetWeight(named(idle(i)), 0, nil))
				if got, err := router.VerifyWeight(named(idle(i)), 0, nil); err.HasError() || got != types.Verified {
					t.Errorf("VerifyWeight of %s = %d, %v", idle(i), got, err)
				}
			}
		}
		work <- func() {
			if err := router.SetWeight(intruder, 30, nil); !strings.Contains(err.Error(), "is split by Rollout demo/healthy") {
				t.Errorf("SetWeight on the rule of another: %v", err)
			}
		}
	}
	close(work)
	running.Wait()
	// 2 s each, ten at a time, would be 30 s.
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("%d reconciles have taken %s: they wait", reconciles.Load(), took)
	}
	succeed(t, router.SetWeight(healthy, 50, nil))
}

// reported gives a route a status of its Gateway for a generation, which says whether the
// Gateway has resolved the route's references.
func reported(route map[string]any, resolved string, generation int) map[string]any {
	condition := func(kind, status string) any {
		return map[string]any{"type": kind, "status": status, "reason": "x", "message": "says the gateway", "observedGeneration": generation}
	}
	route["status"] = map[string]any{"parents": []any{map[string]any{
		"parentRef": map[string]any{"name": "public"}, "controllerName": "example.com/gateway",
		"conditions": []any{condition("Accepted", "True"), condition("ResolvedRefs", resolved)},
	}}}
	return route
}
