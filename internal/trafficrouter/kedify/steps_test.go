package kedify

import (
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

var (
	headerRoute = &v1alpha1.SetHeaderRoute{Name: "r", Match: []v1alpha1.HeaderRoutingMatch{{HeaderName: "x"}}}
	mirrorRoute = &v1alpha1.SetMirrorRoute{Name: "r", Match: []v1alpha1.RouteMatch{{}}}
)

// withUnsupportedStep returns Rollout app with a second step that sets a route.
func withUnsupportedStep(step v1alpha1.CanaryStep) *v1alpha1.Rollout {
	ro := app("app", named)
	twenty := int32(20)
	ro.Spec.Strategy.Canary.Steps = []v1alpha1.CanaryStep{{SetWeight: &twenty}, step}
	return ro
}

func TestAnUnsupportedStepIsRefusedBeforeAnyTraffic(t *testing.T) {
	for name, tc := range map[string]struct {
		step v1alpha1.CanaryStep
		call func(*Router, *v1alpha1.Rollout) types.RpcError
		want string
	}{
		"setHeaderRoute": {v1alpha1.CanaryStep{SetHeaderRoute: headerRoute}, func(r *Router, ro *v1alpha1.Rollout) types.RpcError { return r.SetHeaderRoute(ro, headerRoute) }, "take the setHeaderRoute step out"},
		"setMirrorRoute": {v1alpha1.CanaryStep{SetMirrorRoute: mirrorRoute}, func(r *Router, ro *v1alpha1.Rollout) types.RpcError { return r.SetMirrorRoute(ro, mirrorRoute) }, "take the setMirrorRoute step out"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := apiservertest.New(t)
			server.Put(httpso, "demo", "app", nil)
			router, _ := newRouter(t, server)
			watching(t, router)
			ro := withUnsupportedStep(tc.step)
			succeed(t, router.SetWeight(ro, 0, nil))
			fail(t, router.SetWeight(ro, 20, nil), "SetWeight for Rollout demo/app", "steps[1]", `route "r"`, "not supported", tc.want)
			if got := server.Annotations(httpso, "demo", "app"); len(got) > 0 {
				t.Errorf("written: %v", got)
			}
			for range 3 {
				fail(t, tc.call(router, ro), "Rollout demo/app", "not supported", tc.want)
			}
			warned(t, server, "TrafficRoutingError", "Rollout demo/app", tc.want)
			if got := len(server.Events()); got != 1 {
				t.Errorf("%d Events for one step", got)
			}

			// The step is added mid-canary.
			server.Put(httpso, "demo", "app", map[string]string{weightedbackends.Annotation: split(90, 10), weightedbackends.OwnerAnnotation: "app"})
			eventually(t, "a canary with a share gets past the step", func() bool { return !tc.call(router, ro).HasError() })
			succeed(t, router.SetWeight(ro, 20, nil))
			verified(t, router, ro, 20, types.Verified)
			warned(t, server, "TrafficRoutingError", "Rollout demo/app", tc.want)
			succeed(t, router.SetWeight(ro, 0, nil))
			if got := server.Annotations(httpso, "demo", "app"); len(got) > 0 {
				t.Errorf("left at weight 0: %v", got)
			}
		})
	}
}

// With pingPong there is a split at rest, in which the canary has no share.
func TestAnUnsupportedStepIsRefusedWithPingPong(t *testing.T) {
	server := apiservertest.New(t)
	server.Put(httpso, "demo", "app", nil)
	router, _ := newRouter(t, server)
	watching(t, router)
	ro := pingPong(withUnsupportedStep(v1alpha1.CanaryStep{SetHeaderRoute: headerRoute}), v1alpha1.PPPong)
	succeed(t, router.SetWeight(ro, 0, nil))
	fail(t, router.SetWeight(ro, 20, nil), "not supported")
	if got := server.Annotations(httpso, "demo", "app")[weightedbackends.Annotation]; got != pingSplit("app-pong", 100, "app-ping", 0) {
		t.Errorf("split %q", got)
	}
}

func TestRoutesThatHoldUpNothing(t *testing.T) {
	router, _ := newRouter(t, apiservertest.New(t))
	ro := app("app", named)
	succeed(t, router.SetHeaderRoute(ro, &v1alpha1.SetHeaderRoute{Name: "r"}))
	succeed(t, router.SetMirrorRoute(ro, &v1alpha1.SetMirrorRoute{Name: "r"}))
	for name, leave := range map[string]func(*v1alpha1.RolloutStatus){
		"aborted":          func(s *v1alpha1.RolloutStatus) { s.Abort = true },
		"promoted in full": func(s *v1alpha1.RolloutStatus) { s.PromoteFull = true },
	} {
		t.Run("of a Rollout that is "+name, func(t *testing.T) {
			ro := app("app", named)
			leave(&ro.Status)
			succeed(t, router.SetHeaderRoute(ro, headerRoute))
			succeed(t, router.SetMirrorRoute(ro, mirrorRoute))
		})
	}
}
