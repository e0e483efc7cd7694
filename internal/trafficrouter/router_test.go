package trafficrouter

import (
	"errors"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	plugin "github.com/argoproj/argo-rollouts/utils/plugin/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// One missing object of several holds all above weight 0, and keeps none from weight 0.
func TestOneMissingObjectHoldsAll(t *testing.T) {
	r, s, server := newRouter(t, "a", "b")
	fail(t, r.SetWeight(rolloutOf("a", "missing"), 20, nil), "Toy demo/missing not found")
	if got := s.at("a"); got != "" {
		t.Errorf("a has %s, want nothing", got)
	}
	succeed(t, r.SetWeight(rolloutOf("a", "b"), 20, nil))
	delete(s.objects, "b")
	succeed(t, r.SetWeight(rolloutOf("a", "b"), 50, nil))
	requireEvent(t, server, "Toy demo/b not found; the toy stays as it is until this is corrected")
	if got := s.at("a"); got != "20" {
		t.Errorf("a has %s, want what it had", got)
	}
	if got, _ := r.VerifyWeight(rolloutOf("a", "b"), 50, nil); got != plugin.NotVerified {
		t.Error("a weight that is held is verified")
	}
	succeed(t, r.SetWeight(rolloutOf("a", "b"), 0, nil))
	if got := s.at("a"); got != "" {
		t.Errorf("at weight 0 a has %s", got)
	}
}

// A weight that the API server refuses is held where the controller may go on to its
// analysis, and is an error where it would take away pods that have traffic.
func TestARefusedWeight(t *testing.T) {
	forbidden := apierrors.NewForbidden(toyResource, "a", errors.New("no"))
	webhook := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 418, Message: `admission webhook "policy" denied the request: no`}}
	for name, tc := range map[string]struct {
		refusal error
		before  int32 // in place; nothing when 0
		weight  int32
		change  func(*v1alpha1.Rollout)
		held    bool
	}{
		"a higher weight":               {forbidden, 20, 50, nil, true},
		"a webhook":                     {webhook, 20, 50, nil, true},
		"invalid":                       {apierrors.NewInvalid(toyResource.WithVersion("v1").GroupVersion().WithKind("Toy").GroupKind(), "a", nil), 20, 50, nil, true},
		"nothing in place":              {forbidden, 0, 50, nil, false},
		"a lower weight":                {forbidden, 50, 20, nil, false},
		"weight 0":                      {forbidden, 50, 0, nil, false},
		"a lower weight in an abort":    {forbidden, 50, 20, func(ro *v1alpha1.Rollout) { ro.Status.Abort = true }, true},
		"weight 0 in an abort":          {forbidden, 50, 0, func(ro *v1alpha1.Rollout) { ro.Status.Abort = true }, false},
		"a fault that may go by itself": {apierrors.NewInternalError(errors.New("no")), 20, 50, nil, false},
		"stable would be scaled down": {forbidden, 20, 50, func(ro *v1alpha1.Rollout) {
			ro.Spec.Strategy.Canary.DynamicStableScale = true
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, s, server := newRouter(t, "a")
			if tc.before > 0 {
				succeed(t, r.SetWeight(rolloutOf("a"), tc.before, nil))
			}
			before := s.at("a")
			s.fails["a"] = tc.refusal
			ro := rolloutOf("a")
			if tc.change != nil {
				tc.change(ro)
			}
			err := r.SetWeight(ro, tc.weight, nil)
			if got := !err.HasError(); got != tc.held {
				t.Errorf("SetWeight(%d) over %d: %q, want held %t", tc.weight, tc.before, err.Error(), tc.held)
			}
			if tc.held {
				requireEvent(t, server, "the toy stays as it is until this is corrected or the Rollout is aborted")
			}
			if got, _ := r.VerifyWeight(ro, tc.weight, nil); got != plugin.NotVerified {
				t.Error("it is verified")
			}
			if got := s.at("a"); got != before {
				t.Errorf("the toy has %s, before %s", got, before)
			}
			delete(s.fails, "a")
			succeed(t, r.SetWeight(ro, tc.weight, nil))
		})
	}
}

// Of two objects, one of which was written at the lower weight before the other was refused,
// the other still has the higher one.
func TestARefusedWeightOfOneObject(t *testing.T) {
	r, s, _ := newRouter(t, "a", "b")
	succeed(t, r.SetWeight(rolloutOf("a", "b"), 50, nil))
	s.fails["b"] = apierrors.NewForbidden(toyResource, "b", errors.New("no"))
	fail(t, r.SetWeight(rolloutOf("a", "b"), 20, nil), "Toy demo/b")
	if a, b := s.at("a"), s.at("b"); a != "20" || b != "50" {
		t.Errorf("a has %s and b %s", a, b)
	}
}

// An object that the Rollout does not name any more, and that cannot be written, fails no
// call, and is released when it can be.
func TestAnObjectThatIsNotNamedFailsNoCall(t *testing.T) {
	r, s, server := newRouter(t, "a", "left")
	step := &v1alpha1.SetHeaderRoute{Name: "beta", Match: []v1alpha1.HeaderRoutingMatch{{HeaderName: "X-Beta", HeaderValue: &v1alpha1.StringMatch{Exact: "yes"}}}}
	succeed(t, r.SetHeaderRoute(rolloutOf("a", "left"), step))
	succeed(t, r.SetWeight(rolloutOf("a", "left"), 20, nil))
	s.fails["left"] = apierrors.NewForbidden(toyResource, "left", errors.New("no"))
	ro := rolloutOf("a")
	ro.Generation++
	succeed(t, r.RemoveManagedRoutes(ro))
	for _, weight := range []int32{50, 0, 50} {
		succeed(t, r.SetWeight(ro, weight, nil))
		if got, _ := r.VerifyWeight(ro, weight, nil); got != plugin.Verified {
			t.Errorf("weight %d is not verified", weight)
		}
	}
	requireEvent(t, server, "Toy demo/left")
	delete(s.fails, "left")
	succeed(t, r.SetWeight(ro, 50, nil))
	if got := s.at("left"); got != "" {
		t.Errorf("left still has %s", got)
	}
}

// What cannot be removed is removed by the next SetWeight, in one write with the weight.
func TestARemovalThatFails(t *testing.T) {
	r, s, _ := newRouter(t, "a")
	step := &v1alpha1.SetHeaderRoute{Name: "beta", Match: []v1alpha1.HeaderRoutingMatch{{HeaderName: "X-Beta", HeaderValue: &v1alpha1.StringMatch{Exact: "yes"}}}}
	succeed(t, r.SetHeaderRoute(rolloutOf("a"), step))
	succeed(t, r.SetWeight(rolloutOf("a"), 20, nil))
	s.fails["a"] = apierrors.NewInternalError(errors.New("no"))
	aborted := rolloutOf("a")
	aborted.Status.Abort = true
	succeed(t, r.RemoveManagedRoutes(aborted))
	fail(t, r.SetWeight(aborted, 0, nil), "Toy demo/a")
	delete(s.fails, "a")
	s.written = nil
	succeed(t, r.SetWeight(aborted, 0, nil))
	if got := s.at("a"); got != "" || len(s.written) != 1 {
		t.Errorf("a has %q after %d writes", got, len(s.written))
	}
}

// Routes that are removed while the canary is under way are gone because no pod of it is
// available: an Event says so.
func TestRoutesAreRemovedWhileTheCanaryIsUnderWay(t *testing.T) {
	r, _, server := newRouter(t, "a")
	step := &v1alpha1.SetHeaderRoute{Name: "beta", Match: []v1alpha1.HeaderRoutingMatch{{HeaderName: "X-Beta", HeaderValue: &v1alpha1.StringMatch{Exact: "yes"}}}}
	succeed(t, r.SetHeaderRoute(rolloutOf("a"), step))
	succeed(t, r.SetWeight(rolloutOf("a"), 20, nil))
	succeed(t, r.RemoveManagedRoutes(rolloutOf("a")))
	requireEvent(t, server, "no pod of the canary is available")
}

// Argo Rollouts v1.10.1 calls SetWeight twice in the reconcile in which it removes the routes
// of a canary without an available pod. Only the next reconcile puts them back.
func TestRoutesAreNotPutBackInTheReconcileThatRemovesThem(t *testing.T) {
	r, s, _ := newRouter(t, "a")
	ro := rolloutOf("a")
	ro.ResourceVersion, s.passed = "7", "beta"
	succeed(t, r.RemoveManagedRoutes(ro))
	for range 2 {
		succeed(t, r.SetWeight(ro, 0, nil))
		if got := s.at("a"); strings.Contains(got, "beta") {
			t.Errorf("in the reconcile that removes them, a has %q", got)
		}
	}
	// The next reconcile, with a pod, may come before the Rollout's status has changed.
	succeed(t, r.SetWeight(ro, 20, nil))
	if got := s.at("a"); got != "20 beta" {
		t.Errorf("after it, a has %q", got)
	}
}

// A call that has found everything as it should be asks nothing and decides nothing the next
// time, until an object changes.
func TestAnUnchangedCall(t *testing.T) {
	r, s, _ := newRouter(t, "a", "b")
	reconcile := func() int {
		s.asked = 0
		succeed(t, r.RemoveManagedRoutes(rolloutOf("a")))
		succeed(t, r.SetWeight(rolloutOf("a"), 20, nil))
		_, err := r.VerifyWeight(rolloutOf("a"), 20, nil)
		succeed(t, err)
		return s.asked
	}
	reconcile()
	reconcile()
	if got := reconcile(); got != 0 {
		t.Errorf("a third reconcile asks %d times", got)
	}
	s.objects["b"].SetResourceVersion("7") // not of this Rollout
	if got := reconcile(); got != 0 {
		t.Errorf("it asks %d times after a change of another object", got)
	}
	s.objects["a"].SetResourceVersion("7")
	if got := reconcile(); got == 0 {
		t.Error("it asks nothing after a change of its object")
	}
}

// What is kept of a Rollout goes with it, and not because the watch is late.
func TestWhatIsKeptOfARolloutGoesWithIt(t *testing.T) {
	r, _, server := newRouter(t, "a")
	ro := rolloutOf("a")
	server.PutObject("rollouts", ro)
	succeed(t, r.SetWeight(ro, 20, nil))
	eventually(t, "the watch shows the Rollout", func() bool {
		r.forgetOnce()
		found, _ := r.rollouts.Watched("demo", "app")
		return found != nil
	})
	putsBack := func() bool {
		_, _, ok := r.PutsBack(types.NamespacedName{Namespace: "demo", Name: "app"})
		return ok
	}
	r.forgetOnce()
	r.forgetOnce()
	if len(r.memories.all) != 1 || !putsBack() {
		t.Fatalf("kept of a Rollout that is there: %v", r.memories.all)
	}
	server.Delete("rollouts", "demo", "app")
	eventually(t, "nothing is kept", func() bool {
		r.forgetOnce()
		return len(r.memories.all) == 0 && !putsBack()
	})
}

// A weight that the Rollout's spec makes impossible is an error above weight 0, or held
// where something is in place: it is no weight 0.
func TestAFaultySpec(t *testing.T) {
	r, s, server := newRouter(t, "a")
	faulty := rolloutOf("a")
	faulty.Spec.Strategy.Canary.CanaryService = ""
	fail(t, r.SetWeight(faulty, 20, nil), "canaryService is missing")
	succeed(t, r.SetWeight(rolloutOf("a"), 20, nil))
	succeed(t, r.SetWeight(faulty, 50, nil))
	requireEvent(t, server, "canaryService is missing: name the Service of that side; the toy stays as it is")
	if got := s.at("a"); got != "20" {
		t.Errorf("a has %q, want what it had", got)
	}
	if got, _ := r.VerifyWeight(faulty, 50, nil); got != plugin.NotVerified {
		t.Error("a weight that is held is verified")
	}
	succeed(t, r.SetWeight(faulty, 0, nil))
	if got := s.at("a"); got != "" {
		t.Errorf("at weight 0 a has %q", got)
	}
}

// After a conflict the object may be another Rollout's.
func TestAConflictWithAnotherRollout(t *testing.T) {
	r, s, server := newRouter(t, "a")
	other := rolloutOf("a")
	other.Name = "other"
	server.PutObject("rollouts", other)
	s.beforeWrite = func() {
		s.beforeWrite = nil
		taken := newToy("a")
		taken.SetResourceVersion("2")
		taken.SetAnnotations(map[string]string{"canary": "demo/other=30"})
		s.objects["a"] = taken
	}
	fail(t, r.SetWeight(rolloutOf("a"), 20, nil), "another has it")
	if got := s.at("a"); got != "30" {
		t.Errorf("a has %q", got)
	}
}
