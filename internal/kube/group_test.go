package kube_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/features"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

const (
	gatewayAPI = "gateway.networking.k8s.io"
	httpRoutes = "httproutes"
	owner      = "example.com/owner"
)

var (
	v1       = apiservertest.Version{Name: "v1", Kinds: map[string]string{"HTTPRoute": httpRoutes, "GRPCRoute": "grpcroutes"}}
	v1alpha2 = apiservertest.Version{Name: "v1alpha2", Kinds: map[string]string{"TCPRoute": "tcproutes", "GRPCRoute": "grpcroutes"}}
)

type logbook struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logbook) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

// newServer returns a server that serves Gateway API in two versions.
func newServer(t testing.TB) *apiservertest.Server {
	server := apiservertest.New(t)
	server.Serve(gatewayAPI, v1, v1alpha2)
	return server
}

// newGroup returns a Group for the server's Gateway API, and its log.
func newGroup(t testing.TB, server *apiservertest.Server, change ...func(*kube.GroupOptions)) (*kube.Group, *logbook) {
	log := &logbook{}
	opts := kube.GroupOptions{
		Group:        gatewayAPI,
		Kinds:        []string{"HTTPRoute", "GRPCRoute", "TCPRoute", "UDPRoute"},
		FieldManager: "router",
		Index: func(meta *metav1.ObjectMeta) []string {
			if value, ok := meta.Annotations[owner]; ok {
				return strings.Split(value, ",")
			}
			return nil
		},
		WithoutWatch: "each call reads",
		Logger:       hclog.New(&hclog.LoggerOptions{Output: log, Level: hclog.Info}),
	}
	for _, c := range change {
		c(&opts)
	}
	group := kube.NewGroup(server.Config, opts)
	group.DiscoverEvery(time.Hour, 10*time.Millisecond)
	t.Cleanup(group.Close)
	return group, log
}

// route is an HTTPRoute with one rule that sends all to Service app.
func route(name string, change ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	r := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": "demo", "name": name},
		"spec": map[string]any{"rules": []any{map[string]any{
			"backendRefs": []any{map[string]any{"name": "app", "port": int64(80), "weight": int64(1)}},
		}}},
	}}
	for _, c := range change {
		c(r)
	}
	return r
}

func labelled(key, value string) func(*unstructured.Unstructured) {
	return func(r *unstructured.Unstructured) { r.SetLabels(map[string]string{key: value}) }
}

func owned(by string) func(*unstructured.Unstructured) {
	return func(r *unstructured.Unstructured) { r.SetAnnotations(map[string]string{owner: by}) }
}

// weigh returns a copy of a route with another weight.
func weigh(r *unstructured.Unstructured, weight int64) *unstructured.Unstructured {
	changed := r.DeepCopy()
	changed.Object["spec"].(map[string]any)["rules"] = []any{map[string]any{
		"backendRefs": []any{map[string]any{"name": "app", "port": int64(80), "weight": weight}},
	}}
	return changed
}

// weight returns the weight in a route.
func weight(r *unstructured.Unstructured) int64 {
	rules, _, _ := unstructured.NestedSlice(r.Object, "spec", "rules")
	backends := rules[0].(map[string]any)["backendRefs"].([]any)
	return backends[0].(map[string]any)["weight"].(int64)
}

func get(t *testing.T, group *kube.Group, name string) *unstructured.Unstructured {
	t.Helper()
	r, err := group.Get(t.Context(), "HTTPRoute", "demo", name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// watching waits until the kind is read from its watch.
func watching(t testing.TB, group *kube.Group, kind string) {
	t.Helper()
	eventually(t, kind+" is read from its watch", func() bool {
		_, ok, err := group.Indexed(t.Context(), kind, "none", time.Second)
		return ok && err == nil
	})
}

// eventually polls until a condition holds.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within two minutes: %s", what)
		}
	}
}

// deny refuses these verbs, each as "verb" or "verb resource".
func deny(verbs ...string) apiservertest.Fault {
	return func(w http.ResponseWriter, _ *http.Request, r apiservertest.Request) bool {
		refused := slices.Contains(verbs, r.Verb) || slices.Contains(verbs, r.Verb+" "+r.Resource)
		if refused {
			apiservertest.Forbidden(w, r)
		}
		return refused
	}
}

// hang leaves requests of a verb unanswered until the client gives up.
func hang(verb string) apiservertest.Fault {
	return func(_ http.ResponseWriter, r *http.Request, request apiservertest.Request) bool {
		if request.Verb != verb {
			return false
		}
		<-r.Context().Done()
		return true
	}
}

// verbs returns how many requests of each verb there were since its last call.
func verbs(server *apiservertest.Server) map[string]int {
	counts := map[string]int{}
	for _, r := range server.Requests() {
		counts[r.Verb]++
	}
	return counts
}

// Whatever is granted, reads and writes give the same results; fewer grants cost more
// requests.
func TestGrants(t *testing.T) {
	t.Parallel()
	type requests = map[string]int
	for name, tc := range map[string]struct {
		denied  []string
		get     int      // requests of a Get when the watch is there, if ever
		list    bool     // whether List answers
		write   requests // of two writes
		indexed bool     // whether there is a watch
	}{
		"everything":          {nil, 0, true, requests{"patch": 2}, true},
		"no list":             {[]string{"list"}, 1, false, requests{"patch": 2}, false},
		"no watch":            {[]string{"watch"}, 1, true, requests{"patch": 2}, false},
		"no patch":            {[]string{"patch"}, 0, true, requests{"patch": 1, "update": 2}, true},
		"no update":           {[]string{"update"}, 0, true, requests{"patch": 2}, true},
		"get and patch alone": {[]string{"list", "watch", "update"}, 1, false, requests{"patch": 2}, false},
		"no write":            {[]string{"patch", "update"}, 0, true, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t)
			server.PutObject(httpRoutes, route("app", labelled("app", "a")))
			server.SetFault(deny(tc.denied...))
			group, log := newGroup(t, server)
			if got := weight(get(t, group, "app")); got != 1 {
				t.Errorf("weight %d", got)
			}
			if tc.indexed {
				watching(t, group, "HTTPRoute")
			} else {
				eventually(t, "the refusal is said", func() bool { return log.count("no watch: each call reads") == 1 })
			}
			verbs(server)
			r := get(t, group, "app")
			if got := verbs(server)["get"]; got != tc.get {
				t.Errorf("%d requests of a Get, want %d", got, tc.get)
			}
			found, err := group.List(t.Context(), "HTTPRoute", "demo", labels.SelectorFromSet(labels.Set{"app": "a"}))
			if tc.list {
				if err != nil || len(found) != 1 {
					t.Errorf("List: %v, %v", found, err)
				}
			} else if !apierrors.IsForbidden(err) {
				t.Errorf("List without the grant: %v", err)
			}
			if got := verbs(server)["list"]; tc.indexed && got > 0 {
				t.Errorf("%d requests of a List from the watch", got)
			}
			if _, ok, err := group.Indexed(t.Context(), "HTTPRoute", "x", time.Millisecond); ok != tc.indexed || err != nil {
				t.Errorf("Indexed: %t, %v", ok, err)
			}
			if _, ok := group.Watched("HTTPRoute", "demo", "app"); ok != tc.indexed {
				t.Errorf("Watched: %t", ok)
			}
			if state, ok := group.State("HTTPRoute", "demo", "app"); ok != tc.indexed || ok && state != kube.StateOf(r) {
				t.Errorf("State: %v, %t", state, ok)
			}
			verbs(server)
			if tc.write == nil {
				_, err := group.Write(t.Context(), r, weigh(r, 2))
				if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "cannot update") || !strings.Contains(err.Error(), "cannot patch") {
					t.Errorf("a write without a grant: %v", err)
				}
				return
			}
			for w := range int64(2) {
				written, err := group.Write(t.Context(), r, weigh(r, 10+w))
				if err != nil {
					t.Fatal(err)
				}
				if r = get(t, group, "app"); weight(written) != 10+w || weight(r) != 10+w {
					t.Errorf("written %d, read %d, want %d", weight(written), weight(r), 10+w)
				}
			}
			got := verbs(server)
			maps.DeleteFunc(got, func(verb string, _ int) bool { return verb != "patch" && verb != "update" })
			if diff := cmp.Diff(tc.write, got); diff != "" {
				t.Errorf("requests of two writes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	ask := func(group *kube.Group, kind string) (*unstructured.Unstructured, error) {
		return group.Get(context.Background(), kind, "demo", "app")
	}
	version := func(t *testing.T, group *kube.Group, kind, want string) {
		t.Helper()
		r, err := ask(group, kind)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.GetAPIVersion(); got != gatewayAPI+"/"+want || r.GetKind() != kind {
			t.Errorf("%s %s, want %s in version %s", got, r.GetKind(), kind, want)
		}
	}
	notServed := func(t *testing.T, group *kube.Group, kind string) {
		t.Helper()
		_, err := ask(group, kind)
		var not *kube.NotServedError
		want := "kind " + kind + " of gateway.networking.k8s.io is not served by this cluster: install its CRD"
		if !errors.As(err, &not) || not.Kind != kind || not.Group != gatewayAPI || err.Error() != want {
			t.Fatalf("error %v, want %s", err, want)
		}
		if apierrors.IsNotFound(err) {
			t.Error("the error is that of an object that does not exist")
		}
	}
	fresh := func(t *testing.T) (*apiservertest.Server, *kube.Group, *logbook) {
		server := newServer(t)
		for _, resource := range []string{httpRoutes, "grpcroutes", "tcproutes", "udproutes"} {
			server.PutObject(resource, route("app"))
		}
		group, log := newGroup(t, server)
		return server, group, log
	}

	t.Run("the preferred version of those that serve the kind", func(t *testing.T) {
		t.Parallel()
		_, group, _ := fresh(t)
		version(t, group, "HTTPRoute", "v1")
		version(t, group, "GRPCRoute", "v1")
		version(t, group, "TCPRoute", "v1alpha2")
	})
	t.Run("a kind that is not served disturbs no other, and is not asked for all the time", func(t *testing.T) {
		t.Parallel()
		server, group, _ := fresh(t)
		group.DiscoverEvery(time.Hour, time.Hour)
		for range 100 {
			notServed(t, group, "UDPRoute")
		}
		version(t, group, "HTTPRoute", "v1")
		watching(t, group, "HTTPRoute")
		if got := verbs(server); got["discover"] != 3 {
			t.Errorf("%d requests for versions, want 3: the group and each version, once", got["discover"])
		}
	})
	t.Run("nobody waits while the cluster does not say anew what it serves", func(t *testing.T) {
		t.Parallel()
		server, group, _ := fresh(t)
		group.DiscoverEvery(time.Hour, 0)
		notServed(t, group, "UDPRoute")
		server.SetFault(hang("discover"))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		for range 3 {
			if _, err := group.Get(ctx, "UDPRoute", "demo", "app"); !errors.As(err, new(*kube.NotServedError)) {
				t.Fatalf("error %v, want that of the last answer", err)
			}
		}
	})
	t.Run("what is found by a key does not have the cluster asked again", func(t *testing.T) {
		t.Parallel()
		server, group, _ := fresh(t)
		group.DiscoverEvery(time.Hour, 0)
		version(t, group, "HTTPRoute", "v1")
		verbs(server)
		for range 10 {
			if _, _, err := group.Indexed(t.Context(), "UDPRoute", "x", time.Second); !errors.As(err, new(*kube.NotServedError)) {
				t.Fatalf("error %v", err)
			}
		}
		if got := verbs(server); got["discover"] > 0 {
			t.Errorf("%d requests for versions", got["discover"])
		}
	})
	t.Run("what is found by a key waits no longer than it may", func(t *testing.T) {
		t.Parallel()
		server, group, _ := fresh(t)
		server.SetFault(hang("discover"))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, ok, err := group.Indexed(ctx, "HTTPRoute", "x", 10*time.Millisecond); ok || err == nil {
			t.Errorf("ok %t, %v", ok, err)
		}
		if ctx.Err() != nil {
			t.Error("it has waited for as long as its context lasts")
		}
	})
	t.Run("served later", func(t *testing.T) {
		t.Parallel()
		server, group, _ := fresh(t)
		notServed(t, group, "UDPRoute")
		server.Serve(gatewayAPI, v1, v1alpha2, apiservertest.Version{Name: "v1alpha3", Kinds: map[string]string{"UDPRoute": "udproutes"}})
		eventually(t, "the kind is found", func() bool { _, err := ask(group, "UDPRoute"); return err == nil })
		version(t, group, "UDPRoute", "v1alpha3")
	})
	t.Run("the group comes later", func(t *testing.T) {
		t.Parallel()
		server, group, _ := fresh(t)
		server.Serve(gatewayAPI)
		notServed(t, group, "HTTPRoute")
		server.Serve(gatewayAPI, v1)
		eventually(t, "the kind is found", func() bool { _, err := ask(group, "HTTPRoute"); return err == nil })
	})
	t.Run("a kind that is none of the Group's", func(t *testing.T) {
		t.Parallel()
		server, group, _ := fresh(t)
		if _, err := ask(group, "Gateway"); err == nil || !strings.Contains(err.Error(), `kind "Gateway" is none of those`) {
			t.Errorf("error %v", err)
		}
		if got := server.Requests(); len(got) > 0 {
			t.Errorf("requests %v", got)
		}
	})
	upgraded := []apiservertest.Version{v1, {Name: "v1alpha2", Kinds: map[string]string{"GRPCRoute": "grpcroutes"}}}
	upgraded[0].Kinds = map[string]string{"HTTPRoute": httpRoutes, "TCPRoute": "tcproutes"}
	t.Run("another version in time", func(t *testing.T) {
		t.Parallel()
		server, group, log := fresh(t)
		group.DiscoverEvery(20*time.Millisecond, time.Hour)
		version(t, group, "TCPRoute", "v1alpha2")
		version(t, group, "HTTPRoute", "v1")
		watching(t, group, "TCPRoute")
		server.Serve(gatewayAPI, upgraded...)
		eventually(t, "the watch moves", func() bool { return log.count("a kind is served in another version now") == 1 })
		watching(t, group, "TCPRoute")
		verbs(server)
		version(t, group, "TCPRoute", "v1")
		if got := verbs(server); got["get"] > 0 {
			t.Errorf("requests %v with the watch moved", got)
		}
		// Reads come from the watch that has moved.
		server.PutObject("tcproutes", weigh(route("app"), 7))
		eventually(t, "the change is seen", func() bool { r, err := ask(group, "TCPRoute"); return err == nil && weight(r) == 7 })
	})
	t.Run("another version at once when a watch or a read meets it", func(t *testing.T) {
		t.Parallel()
		for _, denied := range []string{"none", "watch"} {
			server, group, _ := fresh(t)
			server.SetFault(deny(denied))
			version(t, group, "TCPRoute", "v1alpha2")
			if denied == "none" {
				watching(t, group, "TCPRoute")
			}
			server.Serve(gatewayAPI, upgraded...)
			server.EndWatches()
			eventually(t, "objects come in the new version", func() bool {
				r, err := ask(group, "TCPRoute")
				return err == nil && r.GetAPIVersion() == gatewayAPI+"/v1"
			})
		}
	})
	t.Run("a write to a version that has gone is a conflict", func(t *testing.T) {
		t.Parallel()
		server, group, _ := fresh(t)
		group.DiscoverEvery(time.Hour, 0)
		r, err := ask(group, "TCPRoute")
		if err != nil {
			t.Fatal(err)
		}
		watching(t, group, "TCPRoute")
		server.Serve(gatewayAPI, upgraded...)
		if _, err := group.Write(t.Context(), r, weigh(r, 5)); !apierrors.IsConflict(err) {
			t.Fatalf("error %v, want a conflict", err)
		}
		// As a caller does: read, decide anew, write.
		if r, err = ask(group, "TCPRoute"); err != nil {
			t.Fatal(err)
		}
		if r, err = group.Write(t.Context(), r, weigh(r, 5)); err != nil || r.GetAPIVersion() != gatewayAPI+"/v1" || weight(r) != 5 {
			t.Errorf("written %v, %v", r, err)
		}
	})
	t.Run("what a watch said is not believed once its path is unknown", func(t *testing.T) {
		t.Parallel()
		server, group, _ := fresh(t)
		group.DiscoverEvery(time.Hour, time.Hour)
		version(t, group, "TCPRoute", "v1alpha2")
		watching(t, group, "TCPRoute")
		server.Serve(gatewayAPI, upgraded...)
		server.EndWatches()
		eventually(t, "reads say so", func() bool {
			_, err := ask(group, "TCPRoute")
			return err != nil && !apierrors.IsNotFound(err) &&
				strings.Contains(err.Error(), "kind TCPRoute: the API server lists it in gateway.networking.k8s.io/v1alpha2 but does not know it there")
		})
	})
	t.Run("no longer served", func(t *testing.T) {
		t.Parallel()
		server, group, log := fresh(t)
		version(t, group, "TCPRoute", "v1alpha2")
		version(t, group, "HTTPRoute", "v1")
		watching(t, group, "TCPRoute")
		server.Serve(gatewayAPI, v1)
		server.EndWatches()
		eventually(t, "the kind is gone", func() bool { return log.count("a kind is no longer served") == 1 })
		notServed(t, group, "TCPRoute")
		version(t, group, "HTTPRoute", "v1")
	})
	t.Run("a version that cannot be asked keeps what it had", func(t *testing.T) {
		t.Parallel()
		server, group, _ := fresh(t)
		group.DiscoverEvery(10*time.Millisecond, time.Millisecond)
		version(t, group, "TCPRoute", "v1alpha2")
		var failed atomic.Int32
		server.SetFault(func(w http.ResponseWriter, _ *http.Request, r apiservertest.Request) bool {
			if r.Resource != gatewayAPI+"/v1alpha2" {
				return false
			}
			failed.Add(1)
			apiservertest.Fail(w, 503, r)
			return true
		})
		eventually(t, "it is asked in vain", func() bool { return failed.Load() > 3 })
		version(t, group, "TCPRoute", "v1alpha2")
		r, err := ask(group, "TCPRoute")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := group.Write(t.Context(), r, weigh(r, 2)); err != nil {
			t.Errorf("a write in that version: %v", err)
		}
		// A kind that was found in neither version may be in the one that does not
		// answer.
		if _, err := ask(group, "UDPRoute"); err == nil || errors.As(err, new(*kube.NotServedError)) || !strings.Contains(err.Error(), "v1alpha2") {
			t.Errorf("error %v, want one that says which version cannot be asked", err)
		}
	})
	t.Run("discovery fails", func(t *testing.T) {
		t.Parallel()
		server, group, _ := fresh(t)
		server.SetFault(func(w http.ResponseWriter, _ *http.Request, r apiservertest.Request) bool {
			apiservertest.Fail(w, 500, r)
			return true
		})
		if _, err := ask(group, "HTTPRoute"); err == nil || errors.As(err, new(*kube.NotServedError)) || !strings.Contains(err.Error(), "which versions of "+gatewayAPI) {
			t.Errorf("error %v", err)
		}
		server.SetFault(nil)
		version(t, group, "HTTPRoute", "v1")
	})
}

func TestAWatchBeginsWithTheFirstUseOfItsKind(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	server.PutObject(httpRoutes, route("app"))
	group, _ := newGroup(t, server)
	if _, ok := group.Watched("HTTPRoute", "demo", "app"); ok {
		t.Error("something is known before the first use")
	}
	if got := server.Requests(); len(got) > 0 {
		t.Errorf("requests before the first use: %v", got)
	}
	get(t, group, "app")
	watching(t, group, "HTTPRoute")
	for _, r := range server.Requests() {
		if r.Verb != "discover" && r.Resource != httpRoutes {
			t.Errorf("%s, and nobody has asked for that kind", r)
		}
	}
	for range 10 {
		get(t, group, "app")
	}
	if got := server.Requests(); len(got) > 0 {
		t.Errorf("requests of reads from the watch: %v", got)
	}
}

// Keyed returns the objects for which Index returns keys, whatever the keys are.
func TestKeyed(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	server.PutObject(httpRoutes, route("one", owned("x,y"), labelled("in", "progress")))
	server.PutObject(httpRoutes, route("none"))
	group, _ := newGroup(t, server)
	if _, ok := group.Keyed("HTTPRoute"); ok {
		t.Error("something is known before the kind is watched")
	}
	if err := group.Watch(t.Context(), "HTTPRoute"); err != nil {
		t.Fatal(err)
	}
	if err := group.Watch(t.Context(), "UDPRoute"); !errors.As(err, new(*kube.NotServedError)) {
		t.Errorf("watching a kind that is not served: %v", err)
	}
	watching(t, group, "HTTPRoute")
	want := []kube.Keyed{{Namespace: "demo", Name: "one", Labels: map[string]string{"in": "progress"}, Keys: []string{"x", "y"}}}
	got, ok := group.Keyed("HTTPRoute")
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Errorf("ok %t (-want +got):\n%s", ok, diff)
	}
	// Our own write is seen at once.
	one := get(t, group, "one")
	freed := one.DeepCopy()
	freed.SetAnnotations(nil)
	if _, err := group.Write(t.Context(), one, freed); err != nil {
		t.Fatal(err)
	}
	if got, ok := group.Keyed("HTTPRoute"); len(got) > 0 || !ok {
		t.Errorf("after the write: %v, %t", got, ok)
	}
}

func TestAKindThatMayNotBeListedDisturbsNoOther(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	server.PutObject(httpRoutes, route("app"))
	server.PutObject("tcproutes", route("app"))
	server.SetFault(deny("list tcproutes"))
	group, log := newGroup(t, server)
	if _, err := group.Get(t.Context(), "TCPRoute", "demo", "app"); err != nil {
		t.Error(err)
	}
	eventually(t, "the refusal is said", func() bool { return log.count("no watch") == 1 })
	get(t, group, "app")
	watching(t, group, "HTTPRoute")
	if log.count("tcproutes.gateway.networking.k8s.io") != 1 || log.count(httpRoutes) != 0 {
		t.Errorf("the log: %s", log.text.String())
	}
	// The grant comes later.
	server.SetFault(nil)
	watching(t, group, "TCPRoute")
}

func TestWhatIsReturnedIsTheCallers(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	server.PutObject(httpRoutes, route("app", labelled("app", "a"), owned("x")))
	server.Annotate("kubectl", httpRoutes, "demo", "app", map[string]*string{"by": new("hand")})
	group, _ := newGroup(t, server)
	want := get(t, group, "app")
	watching(t, group, "HTTPRoute")
	reads := map[string]func() *unstructured.Unstructured{
		"Get":     func() *unstructured.Unstructured { return get(t, group, "app") },
		"Watched": func() *unstructured.Unstructured { r, _ := group.Watched("HTTPRoute", "demo", "app"); return r },
		"List": func() *unstructured.Unstructured {
			found, err := group.List(t.Context(), "HTTPRoute", "demo", labels.Everything())
			if err != nil {
				t.Fatal(err)
			}
			return found[0]
		},
		"Indexed": func() *unstructured.Unstructured {
			found, _, err := group.Indexed(t.Context(), "HTTPRoute", "x", 0)
			if err != nil {
				t.Fatal(err)
			}
			return found[0]
		},
	}
	for name, read := range reads {
		for range 2 {
			got := read()
			if diff := cmp.Diff(want.Object, got.Object); diff != "" {
				t.Errorf("%s (-plain read +got):\n%s", name, diff)
			}
			got.SetLabels(map[string]string{"damaged": "yes"})
			got.Object["spec"].(map[string]any)["rules"].([]any)[0] = "damaged"
		}
	}
	if len(want.GetManagedFields()) > 0 {
		t.Error("Get returns managedFields")
	}
	read, err := group.Read(t.Context(), "HTTPRoute", "demo", "app")
	if err != nil || len(read.GetManagedFields()) == 0 || read.GetManagedFields()[0].Manager != "kubectl" {
		t.Errorf("Read returns %v, %v, want managedFields", read, err)
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	for _, denied := range []string{"update", "patch"} {
		t.Run("without "+denied, func(t *testing.T) {
			t.Parallel()
			server := newServer(t)
			server.PutObject(httpRoutes, route("app", labelled("in", "progress"), owned("x"), func(r *unstructured.Unstructured) {
				r.Object["spec"].(map[string]any)["hostnames"] = []any{"example.com"}
				r.Object["spec"].(map[string]any)["unknown"] = map[string]any{"stays": "2", "goes": "1"}
				r.Object["status"] = map[string]any{"parents": []any{}}
			}))
			server.SetFault(deny(denied))
			group, _ := newGroup(t, server)
			old := get(t, group, "app")
			watching(t, group, "HTTPRoute")
			verbs(server)

			same := old.DeepCopy()
			same.Object["status"] = map[string]any{"parents": "status is not ours"}
			same.SetLabels(map[string]string{"in": "progress"})
			if got, err := group.Write(t.Context(), old, same); err != nil || got != old {
				t.Errorf("a write of what is there returns %v, %v", got, err)
			}
			if got := verbs(server); len(got) > 0 {
				t.Errorf("requests %v of a write of what is there", got)
			}

			changed := weigh(old, 40)
			changed.SetLabels(nil)
			changed.SetAnnotations(map[string]string{"more": "1"})
			unstructured.RemoveNestedField(changed.Object, "spec", "hostnames")
			unstructured.RemoveNestedField(changed.Object, "spec", "unknown", "goes")
			written, err := group.Write(t.Context(), old, changed)
			if err != nil {
				t.Fatal(err)
			}
			want := changed.DeepCopy()
			unstructured.RemoveNestedField(want.Object, "metadata", "labels")
			want.SetResourceVersion(written.GetResourceVersion())
			want.SetGeneration(written.GetGeneration())
			if diff := cmp.Diff(want.Object, written.Object); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
			read, err := group.Read(t.Context(), "HTTPRoute", "demo", "app")
			if err != nil || len(read.GetManagedFields()) != 1 || read.GetManagedFields()[0].Manager != "router" {
				t.Errorf("the field manager of the write: %v, %v", read.GetManagedFields(), err)
			}
			unstructured.RemoveNestedField(read.Object, "metadata", "managedFields")
			if diff := cmp.Diff(written.Object, read.Object); diff != "" {
				t.Errorf("what the server has (-written +read):\n%s", diff)
			}
			if written.GetGeneration() == old.GetGeneration() {
				t.Error("the generation is the old one")
			}

			// A write based on the old state does not overwrite the new one.
			if _, err := group.Write(t.Context(), old, weigh(old, 50)); !apierrors.IsConflict(err) {
				t.Errorf("a write of an old state: %v, want a conflict", err)
			}
			if got := weight(get(t, group, "app")); got != 40 {
				t.Errorf("weight %d after a conflict", got)
			}
			server.Delete(httpRoutes, "demo", "app")
			if _, err := group.Write(t.Context(), written, weigh(written, 60)); !apierrors.IsNotFound(err) {
				t.Errorf("a write of a deleted object: %v", err)
			}
		})
	}
	t.Run("of what cannot be", func(t *testing.T) {
		t.Parallel()
		server := newServer(t)
		server.PutObject(httpRoutes, route("app"))
		group, _ := newGroup(t, server)
		old := get(t, group, "app")
		verbs(server)
		other, unread, foreign := weigh(old, 2), weigh(old, 2), weigh(old, 2)
		foreign.SetAPIVersion("example.com/v1")
		other.SetName("other")
		unread.SetResourceVersion("")
		for want, pair := range map[string][2]*unstructured.Unstructured{
			"HTTPRoute demo/app cannot be made into HTTPRoute demo/other":  {old, other},
			"HTTPRoute demo/app has no resourceVersion":                    {unread, weigh(old, 3)},
			`HTTPRoute demo/app is of group "example.com", not of gateway`: {foreign, weigh(foreign, 3)},
		} {
			if _, err := group.Write(t.Context(), pair[0], pair[1]); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %s", err, want)
			}
		}
		if got := verbs(server); got["patch"] > 0 {
			t.Errorf("requests %v", got)
		}
	})
}

// An update that contains managedFields would set them.
func TestUpdatesLeaveManagedFieldsToTheServer(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	server.PutObject(httpRoutes, route("app"))
	server.Annotate("kubectl", httpRoutes, "demo", "app", map[string]*string{"by": new("hand")})
	sent := make(chan []byte, 1)
	server.SetFault(func(w http.ResponseWriter, r *http.Request, request apiservertest.Request) bool {
		if request.Verb == "update" {
			text, _ := io.ReadAll(r.Body)
			sent <- text
			r.Body = io.NopCloser(bytes.NewReader(text))
		}
		return deny("patch")(w, r, request)
	})
	group, _ := newGroup(t, server)
	r, err := group.Read(t.Context(), "HTTPRoute", "demo", "app")
	if err != nil || len(r.GetManagedFields()) == 0 {
		t.Fatalf("%v, %v, want managedFields", r, err)
	}
	if _, err := group.Write(t.Context(), r, weigh(r, 2)); err != nil {
		t.Fatal(err)
	}
	if text := <-sent; bytes.Contains(text, []byte("managedFields")) || !bytes.Contains(text, []byte(`"weight":2`)) {
		t.Errorf("sent %s", text)
	}
}

func TestARefusedPatchIsRememberedByNamespace(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	elsewhere := route("app")
	elsewhere.SetNamespace("elsewhere")
	server.PutObject(httpRoutes, elsewhere)
	server.PutObject(httpRoutes, route("app"))
	server.SetFault(func(w http.ResponseWriter, r *http.Request, request apiservertest.Request) bool {
		return request.Namespace == "demo" && deny("patch")(w, r, request)
	})
	group, log := newGroup(t, server)
	for range 3 {
		for _, namespace := range []string{"demo", "elsewhere"} {
			r, err := group.Get(t.Context(), "HTTPRoute", namespace, "app")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := group.Write(t.Context(), r, weigh(r, weight(r)+1)); err != nil {
				t.Fatal(err)
			}
		}
	}
	counts := map[string]int{}
	for _, r := range server.Requests() {
		counts[r.Verb+" "+r.Namespace]++
	}
	if counts["patch demo"] != 1 || counts["update demo"] != 3 || counts["patch elsewhere"] != 3 || counts["update elsewhere"] != 0 {
		t.Errorf("requests %v", counts)
	}
	if log.count("patch is not granted") != 1 {
		t.Errorf("the log: %s", log.text.String())
	}
	// The grants change: one write is refused, and then patches are tried again.
	server.SetFault(deny("update"))
	r := get(t, group, "app")
	if _, err := group.Write(t.Context(), r, weigh(r, 50)); !apierrors.IsForbidden(err) {
		t.Errorf("an update that is no longer granted: %v", err)
	}
	if r, err := group.Write(t.Context(), r, weigh(r, 50)); err != nil || weight(r) != 50 {
		t.Errorf("written %v, %v", r, err)
	}
}

func TestOwnWritesAreSeenWithTheWatchBehind(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	server.PutObject(httpRoutes, route("app"))
	server.PutObject(httpRoutes, route("other"))
	// The watch sends what the test tells it to, until it ends.
	say, end := make(chan any), make(chan struct{})
	server.SetFault(func(w http.ResponseWriter, r *http.Request, request apiservertest.Request) bool {
		if request.Verb != "watch" {
			return false
		}
		w.WriteHeader(http.StatusOK)
		for {
			w.(http.Flusher).Flush()
			select {
			case event := <-say:
				_ = json.NewEncoder(w).Encode(event)
			case <-end:
				return true
			case <-r.Context().Done():
				return true
			}
		}
	})
	changed := make(chan string, 1000)
	group, _ := newGroup(t, server, func(opts *kube.GroupOptions) {
		opts.Changed = func(_, _, name string) { changed <- name }
	})
	first := get(t, group, "app")
	r := first
	watching(t, group, "HTTPRoute")
	verbs(server)
	selector := labels.SelectorFromSet(labels.Set{"in": "progress"})
	for w := range int64(50) {
		desired := weigh(r, 10+w)
		labelled("in", "progress")(desired)
		owned(fmt.Sprintf("r%d", w))(desired)
		var err error
		if r, err = group.Write(t.Context(), r, desired); err != nil {
			t.Fatal(err)
		}
		if got := weight(get(t, group, "app")); got != 10+w {
			t.Fatalf("read %d after writing %d", got, 10+w)
		}
		if got, ok := group.State("HTTPRoute", "demo", "app"); !ok || got != kube.StateOf(r) {
			t.Fatalf("state %v, %t, want %v", got, ok, kube.StateOf(r))
		}
		if found, err := group.List(t.Context(), "HTTPRoute", "demo", selector); err != nil || len(found) != 1 || weight(found[0]) != 10+w {
			t.Fatalf("List: %v, %v", found, err)
		}
		for key, want := range map[string]int{fmt.Sprintf("r%d", w): 1, fmt.Sprintf("r%d", w-1): 0} {
			if found, ok, err := group.Indexed(t.Context(), "HTTPRoute", key, 0); !ok || err != nil || len(found) != want {
				t.Fatalf("%d objects are found by %s, want %d (%t, %v)", len(found), key, want, ok, err)
			}
		}
	}
	if got := verbs(server); got["get"]+got["list"] > 0 {
		t.Errorf("requests %v: the watch is not read from", got)
	}
	// A late event has an older state.
	for len(changed) > 0 {
		<-changed
	}
	say <- map[string]any{"type": "MODIFIED", "object": weigh(first, 5).Object}
	eventually(t, "the late event", func() bool { return len(changed) > 0 })
	if got := weight(get(t, group, "app")); got != 59 {
		t.Errorf("read %d after an event of an older state, want 59", got)
	}
	// The watch catches up, and goes on.
	server.SetFault(nil)
	close(end)
	server.PutObject(httpRoutes, weigh(route("app"), 99))
	eventually(t, "another's change is seen", func() bool { return weight(get(t, group, "app")) == 99 })
}

func TestDeletion(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	server.PutObject(httpRoutes, route("app", owned("x")))
	group, _ := newGroup(t, server)
	get(t, group, "app")
	watching(t, group, "HTTPRoute")
	server.Delete(httpRoutes, "demo", "app")
	eventually(t, "the object is gone", func() bool {
		_, err := group.Get(t.Context(), "HTTPRoute", "demo", "app")
		return apierrors.IsNotFound(err)
	})
	if r, ok := group.Watched("HTTPRoute", "demo", "app"); r != nil || !ok {
		t.Errorf("Watched: %v, %t", r, ok)
	}
	if state, ok := group.State("HTTPRoute", "demo", "app"); state != (kube.State{}) || !ok {
		t.Errorf("State: %v, %t", state, ok)
	}
	if found, ok, err := group.Indexed(t.Context(), "HTTPRoute", "x", 0); len(found) > 0 || !ok || err != nil {
		t.Errorf("Indexed: %v, %t, %v", found, ok, err)
	}
	// The object is created again, as another one.
	server.PutObject(httpRoutes, route("app"))
	eventually(t, "the object is back", func() bool {
		_, err := group.Get(t.Context(), "HTTPRoute", "demo", "app")
		return err == nil
	})
}

func TestIndexAndLabels(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	add := func(namespace, name, key, label string) {
		r := route(name, owned(key), labelled("tier", label))
		r.SetNamespace(namespace)
		server.PutObject(httpRoutes, r)
	}
	add("demo", "b", "one,two", "web")
	add("demo", "a", "two", "web")
	add("demo", "c", "three", "db")
	add("elsewhere", "d", "one", "web")
	names := func(found []*unstructured.Unstructured) string {
		var all []string
		for _, r := range found {
			all = append(all, r.GetNamespace()+"/"+r.GetName())
		}
		return strings.Join(all, " ")
	}
	for _, denied := range []string{"none", "watch"} {
		server.SetFault(deny(denied))
		group, _ := newGroup(t, server)
		if denied == "none" {
			watching(t, group, "HTTPRoute")
			for key, want := range map[string]string{"one": "demo/b elsewhere/d", "two": "demo/a demo/b", "three": "demo/c", "four": ""} {
				found, ok, err := group.Indexed(t.Context(), "HTTPRoute", key, 0)
				if !ok || err != nil || names(found) != want {
					t.Errorf("Indexed(%s): %s, %t, %v, want %s", key, names(found), ok, err, want)
				}
				if states, ok := group.IndexedStates("HTTPRoute", key); !ok || !slices.Equal(states, statesOf(found)) {
					t.Errorf("IndexedStates(%s): %v, %t, want %v", key, states, ok, statesOf(found))
				}
			}
		}
		for text, want := range map[string]string{"tier=web": "demo/a demo/b", "tier!=web": "demo/c", "tier in (web,db)": "demo/a demo/b demo/c", "": "demo/a demo/b demo/c", "none": ""} {
			selector, err := labels.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			found, err := group.List(t.Context(), "HTTPRoute", "demo", selector)
			if err != nil || names(found) != want {
				t.Errorf("List(%s) without %s: %s, %v, want %s", text, denied, names(found), err, want)
			}
			states, ok := group.ListStates("HTTPRoute", "demo", selector)
			if watched := denied == "none"; ok != watched || ok && !slices.Equal(states, statesOf(found)) {
				t.Errorf("ListStates(%s) without %s: %v, %t, want %v", text, denied, states, ok, statesOf(found))
			}
		}
	}
}

func statesOf(objects []*unstructured.Unstructured) []kube.State {
	var states []kube.State
	for _, object := range objects {
		states = append(states, kube.StateOf(object))
	}
	return states
}

func TestListsComeInPages(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	for i := range 250 {
		server.PutObject(httpRoutes, route(fmt.Sprintf("app-%d", i)))
	}
	for _, denied := range []string{"none", "watch"} {
		server.SetFault(deny(denied))
		group, log := newGroup(t, server)
		get(t, group, "app-0")
		if denied == "none" {
			watching(t, group, "HTTPRoute")
		} else {
			eventually(t, "the refusal is said", func() bool { return log.count("no watch") == 1 })
		}
		if got := verbs(server)["list"]; got < 3 {
			t.Errorf("%d requests for 250 objects, want 3", got)
		}
		found, err := group.List(t.Context(), "HTTPRoute", "demo", labels.Everything())
		if err != nil || len(found) != 250 {
			t.Errorf("%d objects, %v", len(found), err)
		}
	}
}

// streamedLists are client-go's features with KUBE_FEATURE_WatchListClient=true,
// which the plugin inherits from the controller's environment.
type streamedLists struct{ features.Gates }

func (s streamedLists) Enabled(feature features.Feature) bool {
	return feature == features.WatchListClient || s.Gates.Enabled(feature)
}

func TestWatchesThatBeginWithWhatIsThere(t *testing.T) {
	before := features.FeatureGates()
	features.ReplaceFeatureGates(streamedLists{before})
	defer features.ReplaceFeatureGates(before)
	server := newServer(t)
	server.PutObject(httpRoutes, route("app"))
	server.SetFault(deny("list"))
	group, _ := newGroup(t, server)
	get(t, group, "app")
	watching(t, group, "HTTPRoute")
	verbs(server)
	get(t, group, "app")
	if got := verbs(server); len(got) > 0 {
		t.Errorf("requests %v with the watch there", got)
	}
	server.PutObject(httpRoutes, weigh(route("app"), 2))
	eventually(t, "a change is seen", func() bool { return weight(get(t, group, "app")) == 2 })
}

func TestChanged(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	server.PutObject(httpRoutes, route("app"))
	var mu sync.Mutex
	told := map[string]int{}
	var group *kube.Group
	group, _ = newGroup(t, server, func(opts *kube.GroupOptions) {
		opts.Changed = func(kind, namespace, name string) {
			mu.Lock()
			defer mu.Unlock()
			told[kind+" "+namespace+"/"+name]++
			if r, ok := group.Watched(kind, namespace, name); ok && r == nil {
				t.Error("what has changed is not there")
			}
		}
	})
	times := func(what string, want int) {
		t.Helper()
		eventually(t, fmt.Sprintf("%s is told of %d times", what, want), func() bool {
			mu.Lock()
			defer mu.Unlock()
			return told[what] == want
		})
	}
	get(t, group, "app")
	times("HTTPRoute demo/app", 1)
	watching(t, group, "HTTPRoute")
	server.PutObject(httpRoutes, weigh(route("app"), 2))
	times("HTTPRoute demo/app", 2)
	server.PutObject(httpRoutes, route("new"))
	times("HTTPRoute demo/new", 1)
	r, err := group.Read(t.Context(), "HTTPRoute", "demo", "app")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := group.Write(t.Context(), r, weigh(r, 3)); err != nil {
		t.Fatal(err)
	}
	times("HTTPRoute demo/app", 3)
	server.PutObject("tcproutes", route("app"))
	if _, err := group.Get(t.Context(), "TCPRoute", "demo", "app"); err != nil {
		t.Fatal(err)
	}
	times("TCPRoute demo/app", 1)
}

func TestOneNamespace(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	elsewhere := route("app")
	elsewhere.SetNamespace("elsewhere")
	server.PutObject(httpRoutes, elsewhere)
	server.PutObject(httpRoutes, route("app"))
	// Outside that namespace, only reads and writes of single objects are allowed.
	server.SetFault(func(w http.ResponseWriter, r *http.Request, request apiservertest.Request) bool {
		return request.Namespace != "demo" && deny("list", "watch")(w, r, request)
	})
	group, log := newGroup(t, server, func(opts *kube.GroupOptions) { opts.Namespace = "demo" })
	get(t, group, "app")
	watching(t, group, "HTTPRoute")
	verbs(server)
	get(t, group, "app")
	if got := verbs(server); len(got) > 0 {
		t.Errorf("requests %v in the namespace that is watched", got)
	}
	r, err := group.Get(t.Context(), "HTTPRoute", "elsewhere", "app")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := group.Write(t.Context(), r, weigh(r, 2)); err != nil {
		t.Fatal(err)
	}
	if r, err = group.Get(t.Context(), "HTTPRoute", "elsewhere", "app"); err != nil || weight(r) != 2 {
		t.Errorf("read %v, %v", r, err)
	}
	if _, err := group.List(t.Context(), "HTTPRoute", "elsewhere", labels.Everything()); !apierrors.IsForbidden(err) {
		t.Errorf("List of a namespace that is not watched: %v, want the refusal", err)
	}
	if _, ok := group.Watched("HTTPRoute", "elsewhere", "app"); ok {
		t.Error("a namespace that is not watched is known of")
	}
	if log.count("no watch") > 0 {
		t.Errorf("something that is not granted was asked for: %s", log.text.String())
	}
}

// A request that hangs holds a caller no longer than its context allows, and does not
// hold calls that do not need it.
func TestWhatHangs(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"discover", "list", "watch", "get"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			server := newServer(t)
			server.PutObject(httpRoutes, route("app"))
			server.SetFault(hang(verb))
			group, _ := newGroup(t, server)
			bounded := func(call func(context.Context) error) error {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				return call(ctx)
			}
			read := func(ctx context.Context) error {
				_, err := group.Get(ctx, "HTTPRoute", "demo", "app")
				return err
			}
			list := func(ctx context.Context) error {
				_, err := group.List(ctx, "HTTPRoute", "demo", labels.Everything())
				return err
			}
			held := []func(context.Context) error{}
			switch verb {
			case "discover":
				held = append(held, read, list)
			case "list":
				held = append(held, list)
			case "get":
				held = append(held, read)
			}
			for _, call := range held {
				if err := bounded(call); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error %v, want that of the context", err)
				}
			}
			switch verb {
			case "list", "watch":
				if err := read(t.Context()); err != nil {
					t.Error(err)
				}
				if _, ok, err := group.Indexed(t.Context(), "HTTPRoute", "x", 10*time.Millisecond); ok || err != nil {
					t.Errorf("Indexed: %t, %v", ok, err)
				}
			case "get": // not needed once there is a watch
				watching(t, group, "HTTPRoute")
				if err := read(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestAFailingWatchIsSaidOnceAndItsLastStateUsed(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	server.PutObject(httpRoutes, route("app"))
	group, log := newGroup(t, server)
	get(t, group, "app")
	watching(t, group, "HTTPRoute")
	var failed atomic.Int32
	server.SetFault(func(w http.ResponseWriter, _ *http.Request, r apiservertest.Request) bool {
		failed.Add(1)
		apiservertest.Fail(w, 500, r)
		return true
	})
	server.EndWatches()
	eventually(t, "the watch is tried again", func() bool { return failed.Load() > 1 })
	if got := weight(get(t, group, "app")); got != 1 {
		t.Errorf("weight %d", got)
	}
	if got := log.count("the watch has failed and is tried again"); got != 1 {
		t.Errorf("said %d times, want once", got)
	}
	server.SetFault(nil)
	eventually(t, "its end is said", func() bool { return log.count("watch established") == 1 })
	server.PutObject(httpRoutes, weigh(route("app"), 2))
	eventually(t, "a change is seen", func() bool { return weight(get(t, group, "app")) == 2 })
}

func TestAClosedGroupReadsPlainly(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	server.PutObject(httpRoutes, route("app"))
	group, _ := newGroup(t, server)
	get(t, group, "app")
	watching(t, group, "HTTPRoute")
	group.Close()
	eventually(t, "the watch has ended", func() bool { _, ok := group.Watched("HTTPRoute", "demo", "app"); return !ok })
	server.PutObject(httpRoutes, weigh(route("app"), 2))
	if got := weight(get(t, group, "app")); got != 2 {
		t.Errorf("weight %d", got)
	}
}

// All sorts of calls at the same time, while versions come and go: for the race detector,
// and to check that no read after a write is older than the write.
func TestAllAtOnce(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	const routes = 4
	for i := range routes {
		server.PutObject(httpRoutes, route(fmt.Sprintf("app-%d", i)))
	}
	beta := apiservertest.Version{Name: "v1beta1", Kinds: map[string]string{"HTTPRoute": httpRoutes}}
	group, _ := newGroup(t, server, func(opts *kube.GroupOptions) { opts.Changed = func(string, string, string) {} })
	group.DiscoverEvery(2*time.Millisecond, time.Millisecond)
	done := make(chan struct{})
	var background sync.WaitGroup
	background.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
			}
			// Both are served all the time, each preferred in turn.
			both := []apiservertest.Version{v1, beta}
			if i%2 == 0 {
				slices.Reverse(both)
			}
			server.Serve(gatewayAPI, both...)
			if i%5 == 0 {
				server.EndWatches()
			}
		}
	})
	background.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if _, err := group.List(context.Background(), "HTTPRoute", "demo", labels.Everything()); err != nil {
				t.Error(err)
				return
			}
			_, _, _ = group.Indexed(context.Background(), "HTTPRoute", "x", time.Millisecond)
		}
	})
	var writers sync.WaitGroup
	for i := range routes {
		writers.Go(func() {
			name := fmt.Sprintf("app-%d", i)
			for w := int64(2); w < 150; w++ {
				r, err := group.Get(context.Background(), "HTTPRoute", "demo", name)
				if err == nil {
					if got := weight(r); got != w-1 {
						t.Errorf("%s: read %d after writing %d", name, got, w-1)
						return
					}
					_, err = group.Write(context.Background(), r, weigh(r, w))
				}
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
			}
		})
	}
	writers.Wait()
	close(done)
	background.Wait()
}
