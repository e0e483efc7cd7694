package kedify

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8stypes "k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

// splitObject returns HTTPScaledObject app with a split of Rollout app.
func splitObject(text string) *httpv1alpha1.HTTPScaledObject {
	object := &httpv1alpha1.HTTPScaledObject{ObjectMeta: metav1.ObjectMeta{
		Namespace: "demo", Name: "app",
		Annotations: map[string]string{"other": "tool", weightedbackends.Annotation: text, weightedbackends.OwnerAnnotation: "app"},
	}}
	object.Spec.ScaleTargetRef.Service = "app-stable"
	return object
}

// sweeping returns a router whose watches are current.
func sweeping(t *testing.T, server *apiservertest.Server) (*Router, *logbook) {
	t.Helper()
	router, log := newRouter(t, server)
	watching(t, router)
	eventually(t, "the watch of Rollouts is current", func() bool {
		_, known := router.Exists(k8stypes.NamespacedName{Namespace: "demo", Name: "none"})
		return known
	})
	server.Requests()
	return router, log
}

func TestASplitWhoseRolloutIsGoneIsTakenOff(t *testing.T) {
	withoutPlugin := app("app", named)
	withoutPlugin.Spec.Strategy.Canary.TrafficRouting.Plugins = map[string]json.RawMessage{"other/router": json.RawMessage(`{}`)}
	const pingPong = "- service: app-ping\n  weight: 70\n- service: app-pong\n  weight: 30\n"
	all := map[string]string{"other": "tool"}
	tests := map[string]struct {
		split   string
		rollout *v1alpha1.Rollout
		want    map[string]string
	}{
		"deleted":                    {split(50, 50), nil, all},
		"does not use the plugin":    {split(50, 50), withoutPlugin, all},
		"names another object":       {split(50, 50), app("app", `{"httpScaledObjectName":"other"}`), all},
		"unreadable split":           {"{", nil, all},
		"deleted, with pingPong":     {pingPong, nil, map[string]string{"other": "tool", weightedbackends.Annotation: "- service: app-ping\n  weight: 100\n"}},
		"uses it":                    {split(50, 50), app("app", named), splitObject(split(50, 50)).Annotations},
		"has a faulty configuration": {split(50, 50), app("app", `{}`), splitObject(split(50, 50)).Annotations},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := apiservertest.New(t)
			server.PutObject(httpso, splitObject(tc.split))
			if tc.rollout != nil {
				server.PutObject(rolloutResource, tc.rollout)
			}
			router, _ := sweeping(t, server)
			router.TakeOff(t.Context())
			if diff := cmp.Diff(tc.want, server.Annotations(httpso, "demo", "app")); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			// A second look finds nothing to do.
			server.Requests()
			router.TakeOff(t.Context())
			// The Event of the first look is written in the background, and may come
			// late.
			again := slices.DeleteFunc(server.Requests(), func(r apiservertest.Request) bool { return r.Resource == "events" })
			if len(again) > 0 {
				t.Errorf("requests of a second look: %v", again)
			}
		})
	}
}

func TestARolloutThatStopsUsingThePlugin(t *testing.T) {
	server := apiservertest.New(t)
	server.PutObject(httpso, splitObject(split(50, 50)))
	ro := app("app", named)
	ro.Generation = 1
	server.PutObject(rolloutResource, ro)
	router, _ := sweeping(t, server)
	router.TakeOff(t.Context())
	changed := ro.DeepCopy()
	changed.Generation, changed.Spec.Strategy.Canary.TrafficRouting = 2, nil
	server.PutObject(rolloutResource, changed)
	eventually(t, "the split is taken off", func() bool {
		router.TakeOff(t.Context())
		return current(server, "app") == ""
	})
	eventually(t, "an Event on the HTTPScaledObject", func() bool {
		for _, e := range server.Events() {
			if e.Reason == "SplitRemoved" && e.InvolvedObject.Kind == "HTTPScaledObject" && e.InvolvedObject.Name == "app" {
				return true
			}
		}
		return false
	})
}

// A Rollout is held in the middle of its canary because it names an object that does not
// exist: its split stays as it is until the next SetWeight can change it.
func TestAHeldRolloutKeepsItsSplit(t *testing.T) {
	server := apiservertest.New(t)
	server.PutObject(httpso, splitObject(split(50, 50)))
	held := app("app", `{"httpScaledObjectName":"missing"}`)
	held.Status.Canary.Weights = &v1alpha1.TrafficWeights{Canary: v1alpha1.WeightDestination{Weight: 50}, Stable: v1alpha1.WeightDestination{Weight: 50}}
	server.PutObject(rolloutResource, held)
	router, _ := sweeping(t, server)
	router.TakeOff(t.Context())
	if got := current(server, "app"); got != split(50, 50) {
		t.Errorf("the split is %q", got)
	}
	held.Status.Canary.Weights = nil // aborted
	server.PutObject(rolloutResource, held)
	eventually(t, "the split is taken off", func() bool {
		router.TakeOff(t.Context())
		return current(server, "app") == ""
	})
}

// If a Rollout cannot be read, assume that it exists.
func TestARolloutThatCannotBeReadKeepsItsSplit(t *testing.T) {
	for name, tc := range map[string]struct {
		verb   string
		answer func(http.ResponseWriter, apiservertest.Request)
	}{
		"get is refused":  {"get", apiservertest.Forbidden},
		"list is refused": {"list", apiservertest.Forbidden},
		"the API server does not know Rollouts": {"get", func(w http.ResponseWriter, _ apiservertest.Request) {
			http.Error(w, "404 page not found", http.StatusNotFound)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := apiservertest.New(t)
			server.PutObject(httpso, splitObject(split(50, 50)))
			answered := make(chan struct{}, 1000)
			server.SetFault(func(w http.ResponseWriter, _ *http.Request, r apiservertest.Request) bool {
				if r.Resource != rolloutResource || r.Verb != tc.verb {
					return false
				}
				tc.answer(w, r)
				answered <- struct{}{}
				return true
			})
			router, _ := newRouter(t, server)
			watching(t, router)
			eventually(t, "the answer", func() bool { router.TakeOff(t.Context()); return len(answered) > 0 })
			router.TakeOff(t.Context())
			if got := current(server, "app"); got != split(50, 50) {
				t.Errorf("split %q", got)
			}
		})
	}
}

// The API server is not asked about a Rollout that has set its split itself.
func TestASplitThatACallHasSetIsNotAskedAbout(t *testing.T) {
	ro := app("app", named)
	ro.UID, ro.Generation = "u-1", 3
	server := apiservertest.New(t)
	server.Put(httpso, "demo", "app", nil)
	server.PutObject(rolloutResource, ro)
	router, _ := sweeping(t, server)
	succeed(t, router.SetWeight(ro, 20, nil))
	eventually(t, "the watch shows the split", func() bool { objects, _ := router.objects.Annotated(); return len(objects) == 1 })
	server.Requests()
	router.TakeOff(t.Context())
	if got := server.Requests(); len(got) > 0 {
		t.Errorf("requests %v", got)
	}
}

// A Rollout that is created anew between the look and the write keeps the split that it
// sets.
func TestARolloutMadeAnewMeanwhileKeepsItsSplit(t *testing.T) {
	server := apiservertest.New(t)
	server.PutObject(httpso, splitObject(split(50, 50)))
	router, _ := sweeping(t, server)
	server.SetFault(func(_ http.ResponseWriter, _ *http.Request, r apiservertest.Request) bool {
		if r.Verb == "patch" {
			// The new Rollout's own write comes first.
			server.SetFault(nil)
			newer := split(90, 10)
			server.Annotate(fieldManager, httpso, "demo", "app", map[string]*string{weightedbackends.Annotation: &newer})
		}
		return false
	})
	router.TakeOff(t.Context())
	if got := current(server, "app"); got != split(90, 10) {
		t.Errorf("split %q", got)
	}
}

// With pingPong, an object that the Rollout no longer names is left to the stable
// Service.
func TestPingPongLeavesAnObjectToTheStableService(t *testing.T) {
	server := apiservertest.New(t)
	server.PutObject(httpso, splitObject(pingSplit("app-pong", 70, "app-ping", 30)))
	server.Put(httpso, "demo", "other", nil)
	router, _ := newRouter(t, server)
	watching(t, router)
	succeed(t, router.SetWeight(pingPong(app("app", `{"httpScaledObjectName":"other"}`), v1alpha1.PPPong), 30, nil))
	want := map[string]string{"other": "tool", weightedbackends.Annotation: "- service: app-pong\n  weight: 100\n"}
	if diff := cmp.Diff(want, server.Annotations(httpso, "demo", "app")); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}
