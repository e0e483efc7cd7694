package kedify

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/plugintest"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

const httpso, rolloutResource = "httpscaledobjects", "rollouts"

var succeed, fail, eventually = plugintest.Succeed, plugintest.Fail, plugintest.Eventually

func app(name, config string) *v1alpha1.Rollout {
	return &v1alpha1.Rollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name},
		Spec: v1alpha1.RolloutSpec{Strategy: v1alpha1.RolloutStrategy{Canary: &v1alpha1.CanaryStrategy{
			StableService: "app-stable", CanaryService: "app-canary",
			TrafficRouting: &v1alpha1.RolloutTrafficRouting{Plugins: map[string]json.RawMessage{PluginName: json.RawMessage(config)}},
		}}},
	}
}

// newRouter returns a router for the server; the log goes to the test's.
func newRouter(t *testing.T, server *apiservertest.Server) (*Router, *logbook) {
	log := &logbook{}
	router := New(server.Config, hclog.New(&hclog.LoggerOptions{Output: log, Level: hclog.Info}), Options{SelfHeal: true})
	t.Cleanup(router.Close)
	return router, log
}

// watching waits until the router reads from its watch.
func watching(t *testing.T, router *Router) {
	t.Helper()
	eventually(t, "reads come from the watch", func() bool {
		_, ok, err := router.objects.WithAnnotation(t.Context(), "demo", "none", time.Second)
		return ok && err == nil
	})
}

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

func verified(t *testing.T, router *Router, ro *v1alpha1.Rollout, weight int32, want types.RpcVerified) {
	t.Helper()
	got, err := router.VerifyWeight(ro, weight, nil)
	succeed(t, err)
	if got != want {
		t.Errorf("VerifyWeight(%d) = %d, want %d", weight, got, want)
	}
}

func split(stable, canary int32) string {
	return weightedbackends.Format([]weightedbackends.Backend{{Service: "app-stable", Weight: stable}, {Service: "app-canary", Weight: canary}})
}

// silence is an open watch that sends nothing.
func silence(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

// silentWatch makes a watch deliver nothing after its list.
func silentWatch(w http.ResponseWriter, r *http.Request, request apiservertest.Request) bool {
	if request.Verb != "watch" {
		return false
	}
	silence(w, r)
	return true
}

func TestSplitComesAndGoesAndNothingElseChanges(t *testing.T) {
	server := apiservertest.New(t)
	server.Put(httpso, "demo", "app", map[string]string{"other": "tool"})
	router, log := newRouter(t, server)
	watching(t, router)
	server.Requests()
	ro := app("app", `{"httpScaledObjectName":"app"}`)

	succeed(t, router.SetWeight(ro, 20, nil))
	verified(t, router, ro, 20, types.Verified)
	want := map[string]string{"other": "tool", weightedbackends.Annotation: split(80, 20), weightedbackends.OwnerAnnotation: "app"}
	if diff := cmp.Diff(want, server.Annotations(httpso, "demo", "app")); diff != "" {
		t.Errorf("annotations at 20 (-want +got):\n%s", diff)
	}
	for range 100 {
		succeed(t, router.UpdateHash(ro, "a", "b", nil))
		succeed(t, router.SetWeight(ro, 20, nil))
		verified(t, router, ro, 20, types.Verified)
		succeed(t, router.RemoveManagedRoutes(ro))
	}
	verified(t, router, ro, 50, types.NotVerified)

	succeed(t, router.SetWeight(ro, 0, nil))
	verified(t, router, ro, 0, types.Verified)
	if diff := cmp.Diff(map[string]string{"other": "tool"}, server.Annotations(httpso, "demo", "app")); diff != "" {
		t.Errorf("annotations at 0 (-want +got):\n%s", diff)
	}
	patch := apiservertest.Request{Verb: "patch", Resource: httpso, Namespace: "demo", Name: "app"}
	if diff := cmp.Diff([]apiservertest.Request{patch, patch}, server.Requests()); diff != "" {
		t.Errorf("requests, want one a change and none besides (-want +got):\n%s", diff)
	}
	if got := log.count("split changed"); got != 2 {
		t.Errorf("%d lines in the log for 2 changes", got)
	}
	if log.count(`to="app-stable=80,app-canary=20"`) != 1 {
		t.Errorf("the log does not say what changed: %s", log.text.String())
	}
}

// An abort is weight 0 for a Rollout whose status says that it is aborted.
func TestAnAbortTakesTheSplitOff(t *testing.T) {
	server := apiservertest.New(t)
	server.Put(httpso, "demo", "app", map[string]string{"other": "tool"})
	router, _ := newRouter(t, server)
	watching(t, router)
	ro := app("app", `{"httpScaledObjectName":"app"}`)
	succeed(t, router.SetWeight(ro, 20, nil))
	server.Requests()

	ro.Status.Abort = true
	verified(t, router, ro, 0, types.NotVerified)
	for range 10 {
		succeed(t, router.SetWeight(ro, 0, nil))
		verified(t, router, ro, 0, types.Verified)
	}
	if diff := cmp.Diff(map[string]string{"other": "tool"}, server.Annotations(httpso, "demo", "app")); diff != "" {
		t.Errorf("annotations after the abort (-want +got):\n%s", diff)
	}
	patch := apiservertest.Request{Verb: "patch", Resource: httpso, Namespace: "demo", Name: "app"}
	if diff := cmp.Diff([]apiservertest.Request{patch}, server.Requests()); diff != "" {
		t.Errorf("requests, want one (-want +got):\n%s", diff)
	}
}

func TestOnlyGetAndPatch(t *testing.T) {
	server := apiservertest.New(t)
	server.Put(httpso, "demo", "app", nil)
	server.SetFault(func(w http.ResponseWriter, _ *http.Request, r apiservertest.Request) bool {
		if r.Verb != "list" && r.Verb != "watch" {
			return false
		}
		apiservertest.Forbidden(w, r)
		return true
	})
	router, log := newRouter(t, server)
	ro := app("app", `{"httpScaledObjectName":"app"}`)
	succeed(t, router.SetWeight(ro, 20, nil))
	verified(t, router, ro, 20, types.Verified)
	requests := func() (n int) {
		for _, r := range server.Requests() {
			if r.Verb == "get" || r.Verb == "patch" {
				n++
			}
		}
		return n
	}
	requests()
	succeed(t, router.SetWeight(ro, 20, nil))
	if got := requests(); got != 1 {
		t.Errorf("%d requests for an unchanged weight, want 1 read", got)
	}
	succeed(t, router.SetWeight(ro, 50, nil))
	if got := requests(); got != 2 {
		t.Errorf("%d requests for a change, want a read and a patch", got)
	}
	if log.count("no watch") != 1 {
		t.Errorf("the missing grant is not said once: %s", log.text.String())
	}

	// The grant comes later.
	server.SetFault(nil)
	watching(t, router)
	requests()
	succeed(t, router.SetWeight(ro, 50, nil))
	if got := requests(); got != 0 {
		t.Errorf("%d requests with the watch granted, want none", got)
	}
}

// The state from a watch is not used any more once the watch is refused.
func TestWatchTakenAway(t *testing.T) {
	for _, verbs := range []string{"list and watch", "watch"} {
		t.Run(verbs, func(t *testing.T) {
			t.Parallel()
			server := apiservertest.New(t)
			server.Put(httpso, "demo", "app", nil)
			router, log := newRouter(t, server)
			watching(t, router)
			ro := app("app", `{"httpScaledObjectName":"app"}`)
			succeed(t, router.SetWeight(ro, 50, nil))
			server.SetFault(func(w http.ResponseWriter, _ *http.Request, r apiservertest.Request) bool {
				if !strings.Contains(verbs, r.Verb) {
					return false
				}
				apiservertest.Forbidden(w, r)
				return true
			})
			server.EndWatches()
			eventually(t, "the refusal is said", func() bool { return log.count("no watch") == 1 })
			server.Put(httpso, "demo", "app", map[string]string{"changed": "unseen"})
			verified(t, router, ro, 50, types.NotVerified)
			succeed(t, router.SetWeight(ro, 50, nil))
			verified(t, router, ro, 50, types.Verified)
			if got := server.Annotations(httpso, "demo", "app")[weightedbackends.Annotation]; got != split(50, 50) {
				t.Errorf("the split is %q", got)
			}
		})
	}
}

func TestReadAfterWriteWithTheWatchBehind(t *testing.T) {
	server := apiservertest.New(t)
	server.Put(httpso, "demo", "app", nil)
	var silent atomic.Bool
	server.SetFault(func(w http.ResponseWriter, r *http.Request, request apiservertest.Request) bool {
		if request.Verb != "watch" {
			return false
		}
		silent.Store(true)
		silence(w, r)
		return true
	})
	router, _ := newRouter(t, server)
	watching(t, router)
	ro := app("app", `{"httpScaledObjectName":"app"}`)
	for weight := int32(1); weight <= 100; weight++ {
		succeed(t, router.SetWeight(ro, weight, nil))
		verified(t, router, ro, weight, types.Verified)
		verified(t, router, ro, weight-1, types.NotVerified)
	}
	if !silent.Load() {
		t.Error("the watch was never asked for")
	}
}

func TestReadAfterWriteWhileTheFirstListIsOnItsWay(t *testing.T) {
	server := apiservertest.New(t)
	server.Put(httpso, "demo", "app", nil)
	listed, deliver := make(chan struct{}), make(chan struct{})
	var once sync.Once
	server.SetFault(func(w http.ResponseWriter, _ *http.Request, request apiservertest.Request) bool {
		if request.Verb != "list" {
			return false
		}
		// The list as it is now, delivered later.
		recorder := httptest.NewRecorder()
		server.Answer(recorder, request)
		once.Do(func() { close(listed) })
		<-deliver
		maps.Copy(w.Header(), recorder.Header())
		w.WriteHeader(recorder.Code)
		_, _ = w.Write(recorder.Body.Bytes())
		return true
	})
	router, _ := newRouter(t, server)
	succeed(t, router.InitPlugin())
	<-listed
	ro := app("app", `{"httpScaledObjectName":"app"}`)
	done := make(chan types.RpcError)
	go func() { done <- router.SetWeight(ro, 20, nil) }()
	eventually(t, "the write", func() bool { return server.Annotations(httpso, "demo", "app") != nil })
	server.SetFault(silentWatch)
	close(deliver)
	succeed(t, <-done)
	watching(t, router)
	verified(t, router, ro, 20, types.Verified)
}

func TestOwnership(t *testing.T) {
	server := apiservertest.New(t)
	server.Put(httpso, "demo", "app", nil)
	first, second := app("first", `{"httpScaledObjectName":"app"}`), app("second", `{"httpScaledObjectName":"app"}`)
	server.PutObject(rolloutResource, first)
	server.PutObject(rolloutResource, second)
	router, log := newRouter(t, server)
	succeed(t, router.SetWeight(first, 20, nil))

	fail(t, router.SetWeight(second, 50, nil), "Rollout demo/second", "HTTPScaledObject demo/app carries the split of Rollout demo/first")
	verified(t, router, second, 50, types.NotVerified)
	succeed(t, router.SetWeight(second, 0, nil))
	verified(t, router, second, 0, types.Verified)
	if got := server.Annotations(httpso, "demo", "app")[weightedbackends.Annotation]; got != split(80, 20) {
		t.Fatalf("the first Rollout's split is %q after the second's calls", got)
	}

	server.Delete(rolloutResource, "demo", "first")
	succeed(t, router.SetWeight(second, 50, nil))
	if got := server.Annotations(httpso, "demo", "app"); got[weightedbackends.OwnerAnnotation] != "second" || got[weightedbackends.Annotation] != split(50, 50) {
		t.Errorf("not taken over from a Rollout that is gone: %v", got)
	}
	if log.count("what a Rollout that does not use the object any more has left is taken off: rollout=demo/first") != 1 {
		t.Errorf("the log does not say once from whom: %s", log.text.String())
	}
}

func TestTwoRolloutsAtOnceLeaveOneSplit(t *testing.T) {
	for range 20 {
		server := apiservertest.New(t)
		server.Put(httpso, "demo", "app", nil)
		for _, name := range []string{"first", "second"} {
			server.PutObject(rolloutResource, app(name, `{"httpScaledObjectName":"app"}`))
		}
		router, _ := newRouter(t, server)
		watching(t, router)
		errs := make(chan types.RpcError, 2)
		for _, name := range []string{"first", "second"} {
			go func() { errs <- router.SetWeight(app(name, `{"httpScaledObjectName":"app"}`), 20, nil) }()
		}
		failed := 0
		for range 2 {
			if err := <-errs; err.HasError() {
				failed++
			}
		}
		if failed != 1 {
			t.Fatalf("%d of two Rollouts refused, want 1", failed)
		}
	}
}

func TestLeavesWhatIsNoLongerNamed(t *testing.T) {
	server := apiservertest.New(t)
	for _, name := range []string{"a", "b", "c"} {
		server.Put(httpso, "demo", name, map[string]string{"other": name})
	}
	server.Put(httpso, "elsewhere", "a", map[string]string{weightedbackends.OwnerAnnotation: "app"})
	// The watch delivers nothing after its list: the splits to take off are known only
	// from our own writes.
	server.SetFault(silentWatch)
	router, _ := newRouter(t, server)
	watching(t, router)
	succeed(t, router.SetWeight(app("app", `{"httpScaledObjects":[{"name":"a"},{"name":"b"}]}`), 20, nil))
	succeed(t, router.SetWeight(app("app", `{"httpScaledObjects":[{"name":"b"},{"name":"c"}]}`), 20, nil))
	if diff := cmp.Diff(map[string]string{"other": "a"}, server.Annotations(httpso, "demo", "a")); diff != "" {
		t.Errorf("a is no longer named (-want +got):\n%s", diff)
	}
	for _, name := range []string{"b", "c"} {
		if got := server.Annotations(httpso, "demo", name)[weightedbackends.Annotation]; got != split(80, 20) {
			t.Errorf("%s carries %q", name, got)
		}
	}
	if got := server.Annotations(httpso, "elsewhere", "a"); got[weightedbackends.OwnerAnnotation] != "app" {
		t.Errorf("another namespace was touched: %v", got)
	}
}

// An object that the Rollout does not name any more, and that cannot be written, keeps the
// Rollout neither from a weight nor from its way back.
func TestAnObjectThatIsNotNamedHoldsUpNothing(t *testing.T) {
	server := apiservertest.New(t)
	server.Put(httpso, "demo", "a", nil)
	server.Put(httpso, "demo", "b", nil)
	router, _ := newRouter(t, server)
	watching(t, router)
	succeed(t, router.SetWeight(app("app", `{"httpScaledObjectName":"a"}`), 20, nil))
	refusePatches(server, "a")
	ro := app("app", `{"httpScaledObjectName":"b"}`)
	succeed(t, router.SetWeight(ro, 50, nil))
	verified(t, router, ro, 50, types.Verified)
	warned(t, server, "TrafficRoutingError", "HTTPScaledObject demo/a", "may not patch", "tried again")
	succeed(t, router.SetWeight(ro, 0, nil))
	server.SetFault(nil)
	succeed(t, router.SetWeight(ro, 0, nil))
	if a, b := current(server, "a"), current(server, "b"); a != "" || b != "" {
		t.Errorf("left at weight 0: %q, %q", a, b)
	}
}

func TestMissingHTTPScaledObject(t *testing.T) {
	server := apiservertest.New(t)
	router, _ := newRouter(t, server)
	watching(t, router)
	server.Requests()
	ro := app("app", `{"httpScaledObjectName":"app"}`)
	for range 3 {
		succeed(t, router.SetWeight(ro, 0, nil))
		verified(t, router, ro, 0, types.Verified)
	}
	if got := server.Requests(); len(got) != 0 {
		t.Errorf("requests %v at rest", got)
	}
	fail(t, router.SetWeight(ro, 20, nil), "Rollout demo/app", "HTTPScaledObject demo/app not found: create it")
	verified(t, router, ro, 20, types.NotVerified)

	server.Put(httpso, "demo", "app", nil)
	eventually(t, "split on the new object", func() bool { return !router.SetWeight(ro, 20, nil).HasError() })
	verified(t, router, ro, 20, types.Verified)
}

// Where Kedify's HTTP stack is not installed, the API server does not know the kind.
func TestAKindThatIsNotThere(t *testing.T) {
	server := apiservertest.New(t)
	server.Serve("http.keda.sh")
	router, _ := newRouter(t, server)
	ro := app("app", `{"httpScaledObjectName":"app"}`)
	fail(t, router.SetWeight(ro, 20, nil), "HTTPScaledObject demo/app: the cluster does not know this kind: install Kedify's HTTP stack")
	verified(t, router, ro, 20, types.NotVerified)
}

func TestAnObjectTheWatchHasNotSeenIsThere(t *testing.T) {
	server := apiservertest.New(t)
	server.SetFault(silentWatch)
	router, _ := newRouter(t, server)
	watching(t, router)
	server.Put(httpso, "demo", "app", nil)
	ro := app("app", `{"httpScaledObjectName":"app"}`)
	succeed(t, router.SetWeight(ro, 20, nil))
	if got := server.Annotations(httpso, "demo", "app")[weightedbackends.Annotation]; got != split(80, 20) {
		t.Errorf("split %q", got)
	}
	succeed(t, router.SetWeight(ro, 0, nil))
	if got, on := server.Annotations(httpso, "demo", "app")[weightedbackends.Annotation]; on {
		t.Errorf("an abort left the split %q on", got)
	}
}

// An object that is missing, or another Rollout's, holds all of the Rollout's objects above
// weight 0: without a split in place that is an error, and with one the controller gets to
// its analysis.
func TestOneMissingOfTwoHoldsTheOther(t *testing.T) {
	for name, tc := range map[string]struct {
		put  func(*apiservertest.Server)
		want string
	}{
		"missing": {func(*apiservertest.Server) {}, "HTTPScaledObject demo/a not found"},
		"another Rollout's": {func(server *apiservertest.Server) {
			server.PutObject(rolloutResource, app("other", `{"httpScaledObjectName":"a"}`))
			server.Put(httpso, "demo", "a", map[string]string{weightedbackends.Annotation: split(50, 50), weightedbackends.OwnerAnnotation: "other"})
		}, "HTTPScaledObject demo/a carries the split of Rollout demo/other"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := apiservertest.New(t)
			server.Put(httpso, "demo", "b", nil)
			tc.put(server)
			router, _ := newRouter(t, server)
			watching(t, router)
			ro := app("app", `{"httpScaledObjects":[{"name":"b"},{"name":"a"}]}`)
			fail(t, router.SetWeight(ro, 20, nil), tc.want)
			if got := current(server, "b"); got != "" {
				t.Errorf("b carries %q", got)
			}

			succeed(t, router.SetWeight(app("app", `{"httpScaledObjectName":"b"}`), 20, nil))
			succeed(t, router.SetWeight(ro, 50, nil))
			if got := current(server, "b"); got != split(80, 20) {
				t.Errorf("b carries %q", got)
			}
			verified(t, router, ro, 50, types.NotVerified)
			warned(t, server, "TrafficRoutingError", "Rollout demo/app", tc.want, "the split stays as it is")
			succeed(t, router.SetWeight(ro, 0, nil))
			if got := current(server, "b"); got != "" {
				t.Errorf("at weight 0, b carries %q", got)
			}
			verified(t, router, ro, 0, types.Verified)
		})
	}
}

// A write that the API server refuses, as it would again, holds the split that is in place:
// an error would keep the controller from the analysis. But a lower weight must not count as
// set: the controller would take away pods that have traffic.
func TestARefusedWriteHoldsTheSplit(t *testing.T) {
	server := apiservertest.New(t)
	server.Put(httpso, "demo", "app", nil)
	router, _ := newRouter(t, server)
	watching(t, router)
	ro := atWeight("app", 20)
	refuse := func(w http.ResponseWriter, _ *http.Request, r apiservertest.Request) bool {
		if r.Verb != "patch" {
			return false
		}
		apiservertest.Forbidden(w, r)
		return true
	}
	server.SetFault(refuse)
	fail(t, router.SetWeight(ro, 20, nil), "may not patch")
	server.SetFault(nil)
	succeed(t, router.SetWeight(ro, 20, nil))
	server.SetFault(refuse)
	succeed(t, router.SetWeight(ro, 50, nil))
	verified(t, router, ro, 50, types.NotVerified)
	warned(t, server, "TrafficRoutingError", "may not patch", "ClusterRole "+role, "the split stays as it is")
	fail(t, router.SetWeight(ro, 10, nil), "may not patch")
	ro.Status.Abort = true
	succeed(t, router.SetWeight(ro, 10, nil))
	verified(t, router, ro, 10, types.NotVerified)
	fail(t, router.SetWeight(ro, 0, nil), "may not patch")
	if got := current(server, "app"); got != split(80, 20) {
		t.Errorf("the split became %q", got)
	}
}

// Where the Rollout has moved to another object that refuses the write, the split in place is
// that on the object that it does not name any more.
func TestARefusedWriteAfterAMoveHoldsTheSplit(t *testing.T) {
	server := apiservertest.New(t)
	server.Put(httpso, "demo", "a", nil)
	server.Put(httpso, "demo", "b", nil)
	router, _ := newRouter(t, server)
	watching(t, router)
	succeed(t, router.SetWeight(app("app", `{"httpScaledObjectName":"a"}`), 50, nil))
	refusePatches(server, "b")
	moved := app("app", `{"httpScaledObjectName":"b"}`)
	succeed(t, router.SetWeight(moved, 60, nil))
	fail(t, router.SetWeight(moved, 10, nil), "may not patch")
	if got := current(server, "a"); got != split(50, 50) {
		t.Errorf("the split became %q", got)
	}
	succeed(t, router.SetWeight(moved, 0, nil))
	if got := current(server, "a"); got != "" {
		t.Errorf("at weight 0 the split is %q", got)
	}
}

func TestFaultsOfTheAPIServer(t *testing.T) {
	answer := func(f func(http.ResponseWriter, apiservertest.Request)) apiservertest.Fault {
		return func(w http.ResponseWriter, _ *http.Request, r apiservertest.Request) bool {
			if r.Verb != "patch" {
				return false
			}
			f(w, r)
			return true
		}
	}
	tests := map[string]struct {
		fault apiservertest.Fault
		want  []string
	}{
		"conflict": {answer(apiservertest.Conflict), []string{"HTTPScaledObject demo/app", "keeps being changed by others"}},
		"500":      {answer(func(w http.ResponseWriter, r apiservertest.Request) { apiservertest.Fail(w, 500, r) }), []string{"HTTPScaledObject demo/app: patch failed"}},
		"429": {answer(func(w http.ResponseWriter, r apiservertest.Request) { apiservertest.ComeBack(w, 429, 30, r) }),
			[]string{"HTTPScaledObject demo/app: patch: the API server is too busy, and asks to come back in 30 s"}},
		"no answer": {func(_ http.ResponseWriter, r *http.Request, request apiservertest.Request) bool {
			if request.Verb == "patch" {
				// Only a server that has read the body notices that the client has left.
				_, _ = io.Copy(io.Discard, r.Body)
				<-r.Context().Done()
			}
			return request.Verb == "patch"
		}, []string{"no answer from the API server within 1.5s"}},
		"connection cut": {func(_ http.ResponseWriter, _ *http.Request, request apiservertest.Request) bool {
			if request.Verb == "patch" {
				panic(http.ErrAbortHandler)
			}
			return false
		}, []string{"HTTPScaledObject demo/app: patch failed"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := apiservertest.New(t)
			server.Put(httpso, "demo", "app", nil)
			router, _ := newRouter(t, server)
			router.Timeout = 1500 * time.Millisecond
			ro := app("app", `{"httpScaledObjectName":"app"}`)
			succeed(t, router.SetWeight(ro, 20, nil))
			server.SetFault(tc.fault)
			started := time.Now()
			fail(t, router.SetWeight(ro, 50, nil), append(tc.want, "SetWeight for Rollout demo/app")...)
			if took := time.Since(started); took > 5*time.Second {
				t.Errorf("the call took %s, its bound is %s", took, router.Timeout)
			}
			verified(t, router, ro, 50, types.NotVerified)
			if got := server.Annotations(httpso, "demo", "app")[weightedbackends.Annotation]; got != split(80, 20) {
				t.Errorf("the split became %q", got)
			}
			server.SetFault(nil)
			succeed(t, router.SetWeight(ro, 50, nil))
			verified(t, router, ro, 50, types.Verified)
		})
	}
}

func TestConflictsArePassedByReadingAgain(t *testing.T) {
	server := apiservertest.New(t)
	server.Put(httpso, "demo", "app", map[string]string{"n": "0"})
	router, _ := newRouter(t, server)
	watching(t, router)
	var conflicts atomic.Int32
	server.SetFault(func(_ http.ResponseWriter, _ *http.Request, r apiservertest.Request) bool {
		if r.Verb == "patch" && conflicts.Add(1) <= 3 {
			server.Put(httpso, "demo", "app", map[string]string{"n": "changed"})
		}
		return false
	})
	succeed(t, router.SetWeight(app("app", `{"httpScaledObjectName":"app"}`), 20, nil))
	want := map[string]string{"n": "changed", weightedbackends.Annotation: split(80, 20), weightedbackends.OwnerAnnotation: "app"}
	if diff := cmp.Diff(want, server.Annotations(httpso, "demo", "app")); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if conflicts.Load() != 4 {
		t.Errorf("%d patches, want 4", conflicts.Load())
	}
}

func TestNoClusterYet(t *testing.T) {
	server := apiservertest.New(t)
	server.Put(httpso, "demo", "app", nil)
	var there atomic.Bool
	router := New(func() (*rest.Config, error) {
		if !there.Load() {
			return nil, rest.ErrNotInCluster
		}
		return server.Config()
	}, hclog.NewNullLogger(), Options{})
	t.Cleanup(router.Close)
	ro := app("app", `{"httpScaledObjectName":"app"}`)
	succeed(t, router.InitPlugin())
	fail(t, router.SetWeight(ro, 20, nil), "Rollout demo/app")
	verified(t, router, ro, 20, types.NotVerified)
	there.Store(true)
	succeed(t, router.SetWeight(ro, 20, nil))
	verified(t, router, ro, 20, types.Verified)
}

func TestType(t *testing.T) {
	if router, _ := newRouter(t, apiservertest.New(t)); router.Type() != "kedify/http" {
		t.Errorf("Type = %q", router.Type())
	}
}

func TestExperimentAtWeightZero(t *testing.T) {
	server := apiservertest.New(t)
	server.Put(httpso, "demo", "app", nil)
	router, _ := newRouter(t, server)
	ro := app("app", `{"httpScaledObjectName":"app"}`)
	additional := []v1alpha1.WeightDestination{{ServiceName: "app-exp", Weight: 5}}
	succeed(t, router.SetWeight(ro, 0, additional))
	want := "- service: app-stable\n  weight: 95\n- service: app-canary\n  weight: 0\n- service: app-exp\n  weight: 5\n"
	if got := server.Annotations(httpso, "demo", "app")[weightedbackends.Annotation]; got != want {
		t.Errorf("split %q, want %q", got, want)
	}
	got, err := router.VerifyWeight(ro, 0, additional)
	succeed(t, err)
	if got != types.Verified {
		t.Errorf("VerifyWeight = %d", got)
	}
	verified(t, router, ro, 0, types.NotVerified)
}

// BenchmarkUnchanged measures a reconcile that finds everything as it should be, without
// the RPC.
func BenchmarkUnchanged(b *testing.B) {
	server := apiservertest.New(b)
	server.Put(httpso, "demo", "app", nil)
	router := New(server.Config, hclog.NewNullLogger(), Options{SelfHeal: true})
	b.Cleanup(router.Close)
	ro := app("app", `{"httpScaledObjectName":"app"}`)
	for router.SetWeight(ro, 20, nil).HasError() || !watchIsCurrent(router) {
		time.Sleep(time.Millisecond)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := router.SetWeight(ro, 20, nil); err.HasError() {
			b.Fatal(err)
		}
		if verified, err := router.VerifyWeight(ro, 20, nil); verified != types.Verified {
			b.Fatal(err)
		}
	}
}

func watchIsCurrent(router *Router) bool {
	_, ok, err := router.objects.WithAnnotation(context.Background(), "demo", "none", time.Second)
	return ok && err == nil
}

// refusePatches makes the API server forbid each patch of one HTTPScaledObject.
func refusePatches(server *apiservertest.Server, name string) {
	server.SetFault(func(w http.ResponseWriter, _ *http.Request, r apiservertest.Request) bool {
		if r.Verb != "patch" || r.Name != name {
			return false
		}
		apiservertest.Forbidden(w, r)
		return true
	})
}
