package kedify

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	k8stypes "k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

// atWeight is a Rollout that is paused at a weight, as the API server has it.
func atWeight(name string, weight int32) *v1alpha1.Rollout {
	ro := app(name, `{"httpScaledObjectName":"`+name+`"}`)
	ro.UID, ro.Generation = "u-1", 7
	step := int32(0)
	ro.Status = v1alpha1.RolloutStatus{CurrentPodHash: "canary", StableRS: "stable", CurrentStepIndex: &step}
	ro.Status.Canary.Weights = &v1alpha1.TrafficWeights{Canary: v1alpha1.WeightDestination{Weight: weight}, Stable: v1alpha1.WeightDestination{Weight: 100 - weight}}
	return ro
}

// overRPC returns the Rollout as a call receives it: gob makes a pointer to zero nil.
func overRPC(ro *v1alpha1.Rollout) *v1alpha1.Rollout {
	called := ro.DeepCopy()
	if *called.Status.CurrentStepIndex == 0 {
		called.Status.CurrentStepIndex = nil
	}
	return called
}

// healing returns a router that watches and repairs, and a server with
// HTTPScaledObject and Rollout app, at the weight given.
func healing(t *testing.T, ro *v1alpha1.Rollout, weight int32) (*apiservertest.Server, *Router, *logbook) {
	t.Helper()
	server := apiservertest.New(t)
	server.Put(httpso, "demo", ro.Name, map[string]string{"other": "tool"})
	server.PutObject(rolloutResource, ro)
	router, log := newRouter(t, server)
	succeed(t, router.InitPlugin())
	watching(t, router)
	succeed(t, router.SetWeight(overRPC(ro), weight, nil))
	server.Requests()
	return server, router, log
}

func current(server *apiservertest.Server, name string) string {
	return server.Annotations(httpso, "demo", name)[weightedbackends.Annotation]
}

func patches(requests []apiservertest.Request) (n int) {
	for _, r := range requests {
		if r.Verb == "patch" {
			n++
		}
	}
	return n
}

var (
	other = "- service: app-stable\n  weight: 100\n"
	// wiped removes both annotations, rewritten changes the split, disowned the
	// owner alone.
	wiped     = map[string]*string{weightedbackends.Annotation: nil, weightedbackends.OwnerAnnotation: nil}
	rewritten = map[string]*string{weightedbackends.Annotation: &other}
	disowned  = map[string]*string{weightedbackends.OwnerAnnotation: nil}
)

func TestAChangedSplitIsPutBack(t *testing.T) {
	tests := map[string]struct {
		change map[string]*string
		event  []string
	}{
		"removed":       {wiped, []string{"the annotation http.kedify.io/weighted-backends was removed", "HTTPScaledObject demo/app is as this canary needs it again (app-stable=50,app-canary=50)", "field managers: scaler 20", "abort the Rollout"}},
		"rewritten":     {rewritten, []string{"field manager scaler changed the split to app-stable=100", "HTTPScaledObject demo/app is as this canary needs it again (app-stable=50,app-canary=50)"}},
		"without owner": {disowned, []string{"the annotation http.kedify.io/weighted-backends-rollout was removed"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, _, log := healing(t, atWeight("app", 50), 50)
			label := "x"
			server.Annotate("scaler", httpso, "demo", "app", map[string]*string{"scaled": &label})
			server.Annotate("scaler", httpso, "demo", "app", tc.change)
			eventually(t, "the split is put back", func() bool {
				return current(server, "app") == split(50, 50) && server.Annotations(httpso, "demo", "app")[weightedbackends.OwnerAnnotation] == "app"
			})
			warned(t, server, "SplitRestored", tc.event...)
			if got := patches(server.Requests()); got != 1 {
				t.Errorf("%d patches, want 1", got)
			}
			if got := log.count("split put back"); got != 1 {
				t.Errorf("%d lines in the log for one repair", got)
			}
			if got := server.Annotations(httpso, "demo", "app"); got["other"] != "tool" || got["scaled"] != "x" {
				t.Errorf("other annotations changed: %v", got)
			}
		})
	}
}

// A split is not put back if the Rollout has changed since the call: it may want another
// split.
func TestASplitIsNotPutBackForAnotherRolloutThanAtTheCall(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.Rollout){
		"made anew":          func(ro *v1alpha1.Rollout) { ro.UID = "u-2" },
		"spec changed":       func(ro *v1alpha1.Rollout) { ro.Generation++ },
		"aborted":            func(ro *v1alpha1.Rollout) { ro.Status.Abort = true },
		"promoted in full":   func(ro *v1alpha1.Rollout) { ro.Status.PromoteFull = true },
		"new revision":       func(ro *v1alpha1.Rollout) { ro.Status.CurrentPodHash = "newer" },
		"promoted":           func(ro *v1alpha1.Rollout) { ro.Status.StableRS = "canary" },
		"at another step":    func(ro *v1alpha1.Rollout) { step := int32(1); ro.Status.CurrentStepIndex = &step },
		"with an experiment": func(ro *v1alpha1.Rollout) { ro.Status.Canary.Weights.Stable.Weight = 45 },
		"at another weight":  func(ro *v1alpha1.Rollout) { ro.Status.Canary.Weights.Canary.Weight = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ro := atWeight("app", 50)
			server, router, _ := healing(t, ro, 50)
			later := ro.DeepCopy()
			change(later)
			server.PutObject(rolloutResource, later)
			server.Annotate("kubectl", httpso, "demo", "app", wiped)
			looked(t, server, router, "app")
			if got := current(server, "app"); got != "" {
				t.Errorf("put back: %q", got)
			}
		})
	}
}

// looked waits until an attempt at a repair has read the Rollout and ended.
func looked(t *testing.T, server *apiservertest.Server, router *Router, name string) {
	t.Helper()
	eventually(t, "the repair looks at the Rollout", func() bool {
		return slices.ContainsFunc(server.Requests(), func(r apiservertest.Request) bool {
			return r.Verb == "get" && r.Resource == rolloutResource && r.Name == name
		})
	})
	_, err := router.VerifyWeight(app(name, named), 0, nil) // takes its turn after the repair
	succeed(t, err)
}

// Two plugins, of an old leader and a new one, must not fight.
func TestWhatAnotherInstanceHasWrittenIsLeft(t *testing.T) {
	server, _, log := healing(t, atWeight("app", 50), 50)
	newer := split(40, 60)
	server.Annotate(fieldManager, httpso, "demo", "app", map[string]*string{weightedbackends.Annotation: &newer})
	eventually(t, "it is said", func() bool { return log.count("another instance of this plugin") > 0 })
	if got := current(server, "app"); got != newer {
		t.Errorf("changed to %q", got)
	}
}

func TestTheSplitOfAnotherRolloutIsLeft(t *testing.T) {
	server, router, _ := healing(t, atWeight("app", 50), 50)
	server.PutObject(rolloutResource, app("second", named))
	owner := "second"
	server.Annotate("kubectl", httpso, "demo", "app", map[string]*string{weightedbackends.OwnerAnnotation: &owner})
	looked(t, server, router, "second")
	if got := server.Annotations(httpso, "demo", "app")[weightedbackends.OwnerAnnotation]; got != "second" {
		t.Errorf("owner %q", got)
	}
}

// At weight 0 nothing is put back, except with pingPong.
func TestAtWeightZero(t *testing.T) {
	server, router, _ := healing(t, atWeight("app", 0), 0)
	marker := pingPong(atWeight("marker", 0), v1alpha1.PPPing)
	server.PutObject(rolloutResource, marker)
	server.Put(httpso, "demo", "marker", nil)
	eventually(t, "the watch shows marker", func() bool { o, _ := router.objects.Metadata.Watched("demo", "marker"); return o != nil })
	succeed(t, router.SetWeight(overRPC(marker), 0, nil))
	byHand := split(10, 90)
	server.Annotate("kubectl", httpso, "demo", "app", map[string]*string{weightedbackends.Annotation: &byHand})
	server.Annotate("kubectl", httpso, "demo", "marker", wiped)
	eventually(t, "with pingPong the split is put back", func() bool { return current(server, "marker") == pingSplit("app-ping", 100, "app-pong", 0) })
	if got := current(server, "app"); got != byHand {
		t.Errorf("without pingPong the split became %q", got)
	}
}

func TestSelfHealOff(t *testing.T) {
	server := apiservertest.New(t)
	ro := atWeight("app", 50)
	server.Put(httpso, "demo", "app", nil)
	server.PutObject(rolloutResource, ro)
	router := New(server.Config, hclog.NewNullLogger(), Options{SelfHeal: false})
	t.Cleanup(router.Close)
	succeed(t, router.InitPlugin())
	watching(t, router)
	succeed(t, router.SetWeight(overRPC(ro), 50, nil))
	server.Requests()
	server.Annotate("kubectl", httpso, "demo", "app", wiped)
	eventually(t, "the watch shows the change", func() bool {
		o, ok := router.objects.Metadata.Watched("demo", "app")
		return ok && len(o.Annotations) == 0
	})
	verified(t, router, overRPC(ro), 50, 0)
	if got := server.Requests(); len(got) > 0 {
		t.Errorf("requests %v", got)
	}
	succeed(t, router.SetWeight(overRPC(ro), 50, nil))
	if got := current(server, "app"); got != split(50, 50) {
		t.Errorf("the next call leaves %q", got)
	}
}

func TestARepairIsTriedAgain(t *testing.T) {
	server, _, log := healing(t, atWeight("app", 50), 50)
	var refused atomic.Int32
	server.SetFault(func(w http.ResponseWriter, _ *http.Request, r apiservertest.Request) bool {
		if r.Resource != rolloutResource || r.Verb != "get" || refused.Add(1) > 1 {
			return false
		}
		apiservertest.Fail(w, 500, r)
		return true
	})
	server.Annotate("kubectl", httpso, "demo", "app", wiped)
	eventually(t, "the split is put back", func() bool { return current(server, "app") == split(50, 50) })
	if log.count("a changed split is not put back yet") != 1 {
		t.Errorf("the log does not say once why it took longer:\n%s", log.text.String())
	}
}

// If a writer keeps changing a split, repairs become ever rarer and there is one Event;
// calls of the controller are not held up by that.
func TestAnInsistentWriter(t *testing.T) {
	ro := atWeight("app", 50)
	server, router, log := healing(t, ro, 50)
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
				if current(server, "app") != other {
					server.Annotate("scaler", httpso, "demo", "app", rewritten)
				}
			}
		}
	}()
	defer func() { close(stop); <-done }()
	eventually(t, "three repairs", func() bool { return log.count("split put back") == 3 })
	// The fourth is due 4 s later.
	server.Requests()
	eventually(t, "a call of the controller writes while repairs back off", func() bool {
		succeed(t, router.SetWeight(overRPC(ro), 50, nil))
		return patches(server.Requests()) > 0
	})
	if got := log.count("split put back"); got != 3 {
		t.Errorf("%d repairs before a call wrote, want 3", got)
	}
	warned(t, server, "SplitRestored", "field manager scaler")
	count := 0
	for _, event := range server.Events() {
		if event.Reason == "SplitRestored" && event.Type == corev1.EventTypeWarning && strings.Contains(event.Message, "demo/app") {
			count++
		}
	}
	if count != 1 {
		t.Errorf("%d Events for one writer", count)
	}
}

// A split that is held while the spec is faulty is put back too.
func TestAHeldSplitIsPutBack(t *testing.T) {
	ro := atWeight("app", 50)
	server, router, _ := healing(t, ro, 50)
	faulty := ro.DeepCopy()
	faulty.Generation++
	faulty.Spec.Strategy.Canary.CanaryService = ""
	server.PutObject(rolloutResource, faulty)
	succeed(t, router.SetWeight(overRPC(faulty), 50, nil))
	server.Annotate("scaler", httpso, "demo", "app", wiped)
	eventually(t, "the split is put back", func() bool { return current(server, "app") == split(50, 50) })
}

// With pingPong, the objects of a Rollout whose configuration cannot be read are known by
// their owner annotation; once that is removed, by the previous call.
func TestPingPongWithAFaultyConfigurationIsPutBack(t *testing.T) {
	ro := pingPong(atWeight("app", 0), v1alpha1.PPPing)
	server, router, _ := healing(t, ro, 0)
	faulty := ro.DeepCopy()
	faulty.Generation++
	faulty.Spec.Strategy.Canary.TrafficRouting.Plugins[PluginName] = []byte(`{"httpScaledObject":"app"}`)
	server.PutObject(rolloutResource, faulty)
	for range 2 {
		succeed(t, router.SetWeight(overRPC(faulty), 0, nil))
		server.Annotate("scaler", httpso, "demo", "app", wiped)
		eventually(t, "the split is put back", func() bool { return current(server, "app") == pingSplit("app-ping", 100, "app-pong", 0) })
	}
	for range 3 {
		succeed(t, router.SetWeight(overRPC(faulty), 0, nil))
	}
	if _, objects, _ := router.PutsBack(k8stypes.NamespacedName{Namespace: "demo", Name: "app"}); len(objects) != 1 {
		t.Errorf("%d objects kept for one HTTPScaledObject: %v", len(objects), objects)
	}
	// A plugin that has never seen the objects does not know that they are as they should
	// be.
	server.Annotate("scaler", httpso, "demo", "app", wiped)
	fresh, _ := newRouter(t, server)
	watching(t, fresh)
	succeed(t, fresh.SetWeight(overRPC(faulty), 0, nil))
	verified(t, fresh, overRPC(faulty), 0, types.NotVerified)
}

// A Rollout at rest that names another Rollout's object does not take it over.
func TestTheObjectOfAnotherIsNotTakenOverByARepair(t *testing.T) {
	server, router, _ := healing(t, atWeight("app", 50), 50)
	second := pingPong(atWeight("second", 0), v1alpha1.PPPing)
	second.Spec.Strategy.Canary.TrafficRouting.Plugins[PluginName] = []byte(named)
	server.PutObject(rolloutResource, second)
	succeed(t, router.SetWeight(overRPC(second), 0, nil))
	verified(t, router, overRPC(second), 0, types.NotVerified)
	warned(t, server, "TrafficRoutingError", "Rollout demo/second", "carries the split of Rollout demo/app")
	server.Annotate("scaler", httpso, "demo", "app", wiped)
	eventually(t, "the split is put back", func() bool { return current(server, "app") == split(50, 50) })
	succeed(t, router.SetWeight(overRPC(atWeight("app", 50)), 50, nil))
}

// The watch is refused when the repair is due, and shows nothing new afterwards.
func TestARepairWaitsForTheWatch(t *testing.T) {
	server, router, log := healing(t, atWeight("app", 50), 50)
	server.Annotate("scaler", httpso, "demo", "app", wiped)
	eventually(t, "a first repair", func() bool { return log.count("split put back") == 1 })
	// The next one is due a second later.
	server.Annotate("scaler", httpso, "demo", "app", wiped)
	eventually(t, "the watch shows it", func() bool {
		o, _ := router.objects.Metadata.Watched("demo", "app")
		return o != nil && len(o.Annotations) == 0
	})
	server.SetFault(deny)
	server.EndWatches()
	eventually(t, "the refusal", func() bool { return log.count("no watch") > 0 })
	server.SetFault(nil)
	eventually(t, "the split is put back", func() bool { return current(server, "app") == split(50, 50) })
}

// A look for leftover splits that hangs holds up no call.
func TestALookForOrphansHoldsUpNoCall(t *testing.T) {
	server := apiservertest.New(t)
	server.PutObject(httpso, splitObject(split(50, 50)))
	ro := atWeight("app", 50)
	server.PutObject(rolloutResource, ro)
	router, _ := sweeping(t, server)
	hanging := make(chan struct{})
	var once sync.Once
	server.SetFault(func(_ http.ResponseWriter, r *http.Request, request apiservertest.Request) bool {
		if request.Resource != rolloutResource || request.Verb != "get" {
			return false
		}
		once.Do(func() { close(hanging) })
		<-r.Context().Done()
		return true
	})
	done := make(chan struct{})
	go func() { defer close(done); router.TakeOff(t.Context()) }()
	<-hanging
	succeed(t, router.SetWeight(overRPC(ro), 0, nil))
	select {
	case <-done:
		t.Error("the look did not hang")
	default:
	}
	<-done
}
