package kedify

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

const named = `{"httpScaledObjectName":"app"}`

// faultyRollouts returns variants of Rollout app with an invalid spec, and the error of
// each at weight 50.
func faultyRollouts() map[string]struct {
	rollout *v1alpha1.Rollout
	want    string
} {
	with := func(config string, change func(*v1alpha1.CanaryStrategy)) *v1alpha1.Rollout {
		ro := app("app", config)
		change(ro.Spec.Strategy.Canary)
		return ro
	}
	few := int32(40)
	return map[string]struct {
		rollout *v1alpha1.Rollout
		want    string
	}{
		"mistyped key":      {app("app", `{"httpScaledObjectname":"app"}`), `plugins["kedify/http"]: unknown key "httpScaledObjectname"`},
		"no canary Service": {with(named, func(c *v1alpha1.CanaryStrategy) { c.CanaryService = "" }), "spec.strategy.canary.canaryService is missing"},
		"equal Services":    {with(named, func(c *v1alpha1.CanaryStrategy) { c.CanaryService = c.StableService }), "a split needs two Services"},
		"weight too high":   {with(named, func(c *v1alpha1.CanaryStrategy) { c.TrafficRouting.MaxTrafficWeight = &few }), "outside 0..40"},
	}
}

// deny refuses list and watch of HTTPScaledObjects.
func deny(w http.ResponseWriter, _ *http.Request, r apiservertest.Request) bool {
	if r.Verb != "list" && r.Verb != "watch" {
		return false
	}
	apiservertest.Forbidden(w, r)
	return true
}

// warned waits for one Warning Event on a Rollout that contains all of these texts.
func warned(t *testing.T, server *apiservertest.Server, reason string, want ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("an Event %s with %q", reason, want), func() bool {
		for _, event := range server.Events() {
			all := event.Type == "Warning" && event.Reason == reason && event.InvolvedObject.Kind == "Rollout"
			for _, w := range want {
				all = all && strings.Contains(event.Message, w)
			}
			if all {
				return true
			}
		}
		return false
	})
}

func TestWeightZeroTakesTheSplitOffWhateverIsWrong(t *testing.T) {
	for name, tc := range faultyRollouts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := apiservertest.New(t)
			server.Put(httpso, "demo", "app", map[string]string{"other": "tool"})
			router, _ := newRouter(t, server)
			watching(t, router)
			succeed(t, router.SetWeight(app("app", named), 20, nil))
			verified(t, router, tc.rollout, 0, types.NotVerified)
			succeed(t, router.SetWeight(tc.rollout, 0, nil))
			if diff := cmp.Diff(map[string]string{"other": "tool"}, server.Annotations(httpso, "demo", "app")); diff != "" {
				t.Errorf("annotations at weight 0 (-want +got):\n%s", diff)
			}
			verified(t, router, tc.rollout, 0, types.Verified)
			if !strings.Contains(tc.want, "outside") { // 0 is inside the range
				warned(t, server, "TrafficRoutingError", tc.want)
			}
		})
	}
}

func TestWeightZeroWithoutWatch(t *testing.T) {
	server := apiservertest.New(t)
	server.Put(httpso, "demo", "app", map[string]string{weightedbackends.Annotation: split(80, 20)})
	server.SetFault(deny)
	router, _ := newRouter(t, server)
	faulty := app("app", `{"httpScaledObjectname":"app"}`)
	faulty.Status.CurrentPodHash, faulty.Status.StableRS, faulty.Status.Abort = "canary", "stable", true
	// The objects are not known: the call fails, and is tried again.
	fail(t, router.SetWeight(faulty, 0, nil), "Rollout demo/app", "may not list and watch", `unknown key "httpScaledObjectname"`)
	verified(t, router, faulty, 0, types.NotVerified)
	// The configuration alone names the objects.
	faulty = app("app", named)
	faulty.Spec.Strategy.Canary.CanaryService = ""
	succeed(t, router.SetWeight(faulty, 0, nil))
	if got := server.Annotations(httpso, "demo", "app"); len(got) > 0 {
		t.Errorf("the split without owner stays: %v", got)
	}
	verified(t, router, faulty, 0, types.Verified)
}

// With a watch of one namespace, the objects of its Rollouts are known: an abort with a
// faulty configuration and nothing in place has nothing to do.
func TestAFaultyConfigurationInTheWatchedNamespace(t *testing.T) {
	server := apiservertest.New(t)
	server.Put(httpso, "demo", "app", nil)
	router := New(server.Config, hclog.NewNullLogger(), Options{WatchNamespace: "demo", SelfHeal: true})
	t.Cleanup(router.Close)
	watching(t, router)
	faulty := app("app", `{"httpScaledObjectname":"app"}`)
	faulty.Status.CurrentPodHash, faulty.Status.StableRS, faulty.Status.Abort = "canary", "stable", true
	succeed(t, router.SetWeight(faulty, 0, nil))
	verified(t, router, faulty, 0, types.Verified)
}

func TestFaultyRolloutAboveZero(t *testing.T) {
	for name, tc := range faultyRollouts() {
		t.Run(name+", no split in place", func(t *testing.T) {
			t.Parallel()
			server := apiservertest.New(t)
			server.Put(httpso, "demo", "app", nil)
			router, _ := newRouter(t, server)
			watching(t, router)
			fail(t, router.SetWeight(tc.rollout, 50, nil), "SetWeight for Rollout demo/app: ", tc.want)
			if got := server.Annotations(httpso, "demo", "app"); len(got) > 0 {
				t.Errorf("written: %v", got)
			}
		})
		for _, watch := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, split in place, watch %t", name, watch), func(t *testing.T) {
				t.Parallel()
				server := apiservertest.New(t)
				server.Put(httpso, "demo", "app", nil)
				if !watch {
					server.SetFault(deny)
				}
				router, _ := newRouter(t, server)
				if watch {
					watching(t, router)
				}
				succeed(t, router.SetWeight(app("app", named), 20, nil))
				// The weight as the controller has recorded it.
				ro := tc.rollout.DeepCopy()
				ro.Status.Canary.Weights = &v1alpha1.TrafficWeights{Canary: v1alpha1.WeightDestination{Weight: 20}}
				for range 3 {
					succeed(t, router.SetWeight(ro, 50, nil))
					verified(t, router, ro, 50, types.NotVerified)
				}
				if got := server.Annotations(httpso, "demo", "app")[weightedbackends.Annotation]; got != split(80, 20) {
					t.Errorf("the split became %q", got)
				}
				warned(t, server, "TrafficRoutingError", "Rollout demo/app", tc.want, "stays as it is")
				if got := len(server.Events()); got != 1 {
					t.Errorf("%d Events for one fault", got)
				}
			})
		}
	}
}

// pingPong gives a Rollout ping-pong Services; stable is the one that
// status.canary.stablePingPong names.
func pingPong(ro *v1alpha1.Rollout, stable v1alpha1.PingPongType) *v1alpha1.Rollout {
	ro.Spec.Strategy.Canary.StableService, ro.Spec.Strategy.Canary.CanaryService = "", ""
	ro.Spec.Strategy.Canary.PingPong = &v1alpha1.PingPongSpec{PingService: "app-ping", PongService: "app-pong"}
	ro.Status.Canary.StablePingPong = stable
	return ro
}

func pingSplit(first string, weight int32, second string, rest int32) string {
	return weightedbackends.Format([]weightedbackends.Backend{{Service: first, Weight: weight}, {Service: second, Weight: rest}})
}

func TestPingPongWithAFaultyConfigurationIsAllStableAtWeightZero(t *testing.T) {
	server := apiservertest.New(t)
	server.Put(httpso, "demo", "app", nil)
	server.Put(httpso, "demo", "other", nil)
	router, _ := newRouter(t, server)
	watching(t, router)
	succeed(t, router.SetWeight(pingPong(app("app", `{"httpScaledObjects":[{"name":"app"},{"name":"other"}]}`), v1alpha1.PPPong), 30, nil))
	faulty := pingPong(app("app", `{"httpScaledObject":[]}`), v1alpha1.PPPong)
	verified(t, router, faulty, 0, types.NotVerified)
	succeed(t, router.SetWeight(faulty, 0, nil))
	for _, name := range []string{"app", "other"} {
		if got := server.Annotations(httpso, "demo", name)[weightedbackends.Annotation]; got != pingSplit("app-pong", 100, "app-ping", 0) {
			t.Errorf("%s carries %q", name, got)
		}
	}
	verified(t, router, faulty, 0, types.Verified)
}

func TestPingPongComesBackForAMissingObject(t *testing.T) {
	server := apiservertest.New(t)
	router, _ := newRouter(t, server)
	watching(t, router)
	ro := pingPong(app("app", named), v1alpha1.PPPong)
	succeed(t, router.SetWeight(ro, 0, nil))
	verified(t, router, ro, 0, types.NotVerified)
	warned(t, server, "TrafficRoutingError", "HTTPScaledObject demo/app not found")
	server.Put(httpso, "demo", "app", nil)
	eventually(t, "the split is written when the controller comes back", func() bool {
		succeed(t, router.SetWeight(ro, 0, nil))
		got, err := router.VerifyWeight(ro, 0, nil)
		succeed(t, err)
		return got == types.Verified
	})
	if got := server.Annotations(httpso, "demo", "app")[weightedbackends.Annotation]; got != pingSplit("app-pong", 100, "app-ping", 0) {
		t.Errorf("split %q", got)
	}
}

func TestVerifyWeightSeesAnObjectTheWatchHasNotShown(t *testing.T) {
	server := apiservertest.New(t)
	server.SetFault(silentWatch)
	router, _ := newRouter(t, server)
	watching(t, router)
	server.Put(httpso, "demo", "app", nil)
	for _, ro := range []*v1alpha1.Rollout{app("app", named), pingPong(app("app", named), v1alpha1.PPPong)} {
		succeed(t, router.SetWeight(ro, 20, nil))
		verified(t, router, ro, 20, types.Verified)
	}
}

// With dynamicStableScale the stable side is scaled down as the weight goes up: a higher
// weight that was not carried out must not count as set. A lower weight, and an abort, go
// on.
func TestFaultyRolloutWithDynamicStableScale(t *testing.T) {
	server := apiservertest.New(t)
	server.Put(httpso, "demo", "app", nil)
	router, _ := newRouter(t, server)
	watching(t, router)
	succeed(t, router.SetWeight(app("app", named), 20, nil))
	ro := app("app", `{"httpScaledObjectname":"app"}`)
	ro.Spec.Strategy.Canary.DynamicStableScale = true
	ro.Status.Canary.Weights = &v1alpha1.TrafficWeights{Canary: v1alpha1.WeightDestination{Weight: 20}}
	succeed(t, router.SetWeight(ro, 20, nil))
	fail(t, router.SetWeight(ro, 90, nil), "unknown key")
	succeed(t, router.SetWeight(ro, 10, nil))
	if got := current(server, "app"); got != split(80, 20) {
		t.Errorf("the split %q does not stay as it was", got)
	}
	ro.Status.Abort = true
	succeed(t, router.SetWeight(ro, 10, nil))
	succeed(t, router.SetWeight(ro, 0, nil))
	if got := current(server, "app"); got != "" {
		t.Errorf("the split %q is left after the abort", got)
	}
}

// Traffic leaves a canary without pods even if an experiment cannot be served.
func TestWeightZeroWithAFaultyExperiment(t *testing.T) {
	server := apiservertest.New(t)
	server.Put(httpso, "demo", "app", nil)
	router, _ := newRouter(t, server)
	watching(t, router)
	ro := app("app", named)
	succeed(t, router.SetWeight(ro, 20, nil))
	nameless := []v1alpha1.WeightDestination{{PodTemplateHash: "h", Weight: 5}}
	succeed(t, router.SetWeight(ro, 0, nameless))
	if got := current(server, "app"); got != "" {
		t.Errorf("the canary keeps its share: %q", got)
	}
	if got, err := router.VerifyWeight(ro, 0, nameless); err.HasError() || got != types.NotVerified {
		t.Errorf("VerifyWeight = %d, %v, without the experiment's share", got, err)
	}
	warned(t, server, "TrafficRoutingError", "has no Service", "all requests go to stable")
}

// No Rollout has such a name.
func TestAnOwnerThatIsNoNameOwnsNothing(t *testing.T) {
	for _, owner := range []string{"demo/app", "", "No Name"} {
		server := apiservertest.New(t)
		server.Put(httpso, "demo", "app", map[string]string{weightedbackends.Annotation: split(80, 20), weightedbackends.OwnerAnnotation: owner})
		router, _ := newRouter(t, server)
		watching(t, router)
		succeed(t, router.SetWeight(app("app", named), 0, nil))
		if got := current(server, "app"); got != "" {
			t.Errorf("owner %q: left at weight 0: %q", owner, got)
		}
	}
}

// One Event for each step, however often the weight changes in it.
func TestOneEventAStep(t *testing.T) {
	server := apiservertest.New(t)
	server.Put(httpso, "demo", "app", nil)
	router, _ := newRouter(t, server)
	watching(t, router)
	succeed(t, router.SetWeight(app("app", named), 90, nil))
	faulty := app("app", `{"httpScaledObjectname":"app"}`)
	for step := range int32(2) {
		faulty.Status.CurrentStepIndex = &step
		for weight := int32(80); weight > 40; weight-- {
			succeed(t, router.SetWeight(faulty, weight, nil))
		}
	}
	eventually(t, "both Events", func() bool { return len(server.Events()) >= 2 })
	if got := len(server.Events()); got != 2 {
		t.Errorf("%d Events for two steps", got)
	}
}

func TestOwnershipExpires(t *testing.T) {
	withoutPlugin := app("first", named)
	withoutPlugin.Spec.Strategy.Canary.TrafficRouting.Plugins = map[string]json.RawMessage{"other/router": json.RawMessage(`{}`)}
	deleting := app("first", named)
	deleting.DeletionTimestamp, deleting.Finalizers = &metav1.Time{Time: time.Now()}, []string{"somebody/waits"}
	blueGreen := app("first", named)
	blueGreen.Spec.Strategy = v1alpha1.RolloutStrategy{BlueGreen: &v1alpha1.BlueGreenStrategy{}}
	const splitOfFirst = "- service: first-stable\n  weight: 80\n- service: first-canary\n  weight: 20\n"
	owned := map[string]string{weightedbackends.Annotation: splitOfFirst, weightedbackends.OwnerAnnotation: "first"}
	tests := map[string]struct {
		first       *v1alpha1.Rollout
		annotations map[string]string
		owns        bool
	}{
		"exists, uses the plugin, names the object": {app("first", named), owned, true},
		"its configuration cannot be read":          {app("first", `{"httpScaledObject":"app"}`), owned, true},
		"is gone":                                   {nil, owned, false},
		"does not use the plugin":                   {withoutPlugin, owned, false},
		"waits for a finalizer":                     {deleting, owned, false},
		"is no canary":                              {blueGreen, owned, false},
		"names another object":                      {app("first", `{"httpScaledObjectName":"other"}`), owned, false},
		"has left an owner, no split":               {app("first", named), map[string]string{weightedbackends.OwnerAnnotation: "first"}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := apiservertest.New(t)
			server.Put(httpso, "demo", "app", tc.annotations)
			if tc.first != nil {
				server.PutObject(rolloutResource, tc.first)
			}
			router, _ := newRouter(t, server)
			watching(t, router)
			second := app("second", named)
			succeed(t, router.SetWeight(second, 0, nil))
			_, left := server.Annotations(httpso, "demo", "app")[weightedbackends.Annotation]
			if left != tc.owns {
				t.Errorf("after weight 0 of another Rollout the split is there: %t, want %t", left, tc.owns)
			}
			err := router.SetWeight(second, 20, nil)
			if !tc.owns {
				succeed(t, err)
				verified(t, router, second, 20, types.Verified)
				return
			}
			fail(t, err, "carries the split of Rollout demo/first")
			if got := server.Annotations(httpso, "demo", "app")[weightedbackends.Annotation]; got != splitOfFirst {
				t.Errorf("the split of first became %q", got)
			}
		})
	}
}

// Without a watch, an HTTPScaledObject whose read hangs keeps no other from weight 0, also if
// it is one that the router has put back (and that the Rollout does not name any more).
func TestAReadThatHangsKeepsNoOtherFromRest(t *testing.T) {
	for name, config := range map[string]string{
		"named":     `{"httpScaledObjects":[{"name":"a"},{"name":"b"}]}`,
		"not named": `{"httpScaledObjectName":"b"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := apiservertest.New(t)
			server.Put(httpso, "demo", "a", nil)
			server.Put(httpso, "demo", "b", nil)
			server.SetFault(deny)
			router, _ := newRouter(t, server)
			router.Timeout = 4 * time.Second
			succeed(t, router.SetWeight(app("app", `{"httpScaledObjects":[{"name":"a"},{"name":"b"}]}`), 20, nil))
			server.SetFault(func(w http.ResponseWriter, r *http.Request, request apiservertest.Request) bool {
				if request.Verb == "get" && request.Name == "a" {
					<-r.Context().Done()
					return true
				}
				return deny(w, r, request)
			})
			_ = router.SetWeight(app("app", config), 0, nil)
			if got := server.Annotations(httpso, "demo", "b"); len(got) > 0 {
				t.Errorf("b still has %v", got)
			}
		})
	}
}

// A Rollout at rest leaves the split of another one alone, even if nobody can say whether that
// one still uses it: a first deployment must not fail because of it.
func TestTheSplitOfARolloutThatCannotBeReadFailsNoneAtRest(t *testing.T) {
	server := apiservertest.New(t)
	server.PutObject(httpso, splitObject(split(50, 50)))
	server.SetFault(func(w http.ResponseWriter, _ *http.Request, q apiservertest.Request) bool {
		if q.Resource != rolloutResource {
			return false
		}
		apiservertest.Forbidden(w, q)
		return true
	})
	router, _ := newRouter(t, server)
	ro := app("another", named)
	succeed(t, router.SetWeight(ro, 0, nil))
	verified(t, router, ro, 0, types.Verified)
	fail(t, router.SetWeight(ro, 20, nil), "carries the split of Rollout demo/app", "is not known")
	if got := current(server, "app"); got != split(50, 50) {
		t.Errorf("split %q", got)
	}
}

// An HTTPScaledObject that carries the split of a Rollout whose read hangs keeps no other from
// weight 0.
func TestAnotherRolloutThatCannotBeReadKeepsNoOtherFromRest(t *testing.T) {
	server := apiservertest.New(t)
	server.Put(httpso, "demo", "a", nil)
	server.Put(httpso, "demo", "b", nil)
	router, _ := newRouter(t, server)
	router.Timeout = 4 * time.Second
	watching(t, router)
	ro := app("app", `{"httpScaledObjects":[{"name":"a"},{"name":"b"}]}`)
	succeed(t, router.SetWeight(ro, 20, nil))
	other := "other"
	server.Annotate("x", httpso, "demo", "a", map[string]*string{weightedbackends.OwnerAnnotation: &other})
	eventually(t, "the watch shows the other owner", func() bool {
		object, _ := router.objects.Metadata.Watched("demo", "a")
		return object != nil && object.Annotations[weightedbackends.OwnerAnnotation] == other
	})
	server.SetFault(func(w http.ResponseWriter, r *http.Request, q apiservertest.Request) bool {
		if q.Verb == "get" && q.Resource == "rollouts" {
			<-r.Context().Done()
			return true
		}
		return false
	})
	_ = router.SetWeight(ro, 0, nil)
	if got := server.Annotations(httpso, "demo", "b"); len(got) > 0 {
		t.Errorf("b still has %v", got)
	}
}
