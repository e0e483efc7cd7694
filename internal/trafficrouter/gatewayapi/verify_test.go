package gatewayapi

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
)

func TestVerifyWeight(t *testing.T) {
	split := func(t *testing.T, server *apiservertest.Server, router *Router, config string) *unstructured.Unstructured {
		succeed(t, router.SetWeight(app(config), 20, nil))
		return stored(t, router, "app")
	}
	t.Run("accepted", func(t *testing.T) {
		server := newServer(t, httpRoute("app"))
		router := newRouter(t, server)
		verified(t, router, app(named), 20, types.NotVerified) // not written yet
		server.PutObject(httpRoutes, reported(split(t, server, router, named), 2, 2, true, "Accepted"))
		eventually(t, "verified", func() bool {
			got, _ := router.VerifyWeight(app(named), 20, nil)
			return got == types.Verified
		})
		verified(t, router, app(named), 30, types.NotVerified)
	})
	t.Run("refused", func(t *testing.T) {
		server := newServer(t, httpRoute("app"))
		router := newRouter(t, server)
		server.PutObject(httpRoutes, reported(split(t, server, router, named), 2, 2, false, "BackendNotFound"))
		eventually(t, "the watch shows the report", func() bool {
			return len(parentsOf(watched(router), nil)) == 1 && parentsOf(watched(router), nil)[0].State == Refused
		})
		verified(t, router, app(named), 20, types.NotVerified)
		requireEvent(t, server, reasonRefused, "Gateway demo/public", "BackendNotFound", "says the gateway")
		verified(t, router, app(`{"httpRoute": "app", "verification": "off"}`), 20, types.Verified)
		// Taking traffic off the canary is not held up.
		succeed(t, router.SetWeight(app(named), 0, nil))
		verified(t, router, app(named), 0, types.Verified)
	})
	t.Run("behind, and reports while the call waits", func(t *testing.T) {
		server := newServer(t, httpRoute("app"))
		router := newRouter(t, server)
		route := split(t, server, router, named)
		server.PutObject(httpRoutes, reported(route, 2, 1, true, "Accepted"))
		eventually(t, "the watch shows the report", func() bool {
			return len(parentsOf(watched(router), nil)) == 1 && parentsOf(watched(router), nil)[0].State == Behind
		})
		answer := make(chan types.RpcVerified)
		go func() {
			got, _ := router.VerifyWeight(app(named), 20, nil)
			answer <- got
		}()
		eventually(t, "the call waits", func() bool { return router.routes.reports.known(refOf(route)) })
		server.PutObject(httpRoutes, reported(route, 2, 2, true, "Accepted"))
		if got := <-answer; got != types.Verified {
			t.Errorf("VerifyWeight = %d", got)
		}
	})
	t.Run("nobody reports", func(t *testing.T) {
		server := newServer(t, httpRoute("app"))
		router := newRouter(t, server)
		split(t, server, router, named)
		verified(t, router, app(named), 20, types.NotVerified)
		router.routes.reports.backdate(reportPatience + time.Second)
		verified(t, router, app(named), 20, types.Verified)
		requireEvent(t, server, reasonUnreported, "Gateway demo/public")
		// The next steps do not wait for the Gateway's report.
		for _, weight := range []int32{40, 60} {
			succeed(t, router.SetWeight(app(named), weight, nil))
			verified(t, router, app(named), weight, types.Verified)
		}
		// Once the Gateway reports, calls wait for it again.
		route := stored(t, router, "app")
		server.PutObject(httpRoutes, reported(route, route.GetGeneration(), route.GetGeneration(), true, "Accepted"))
		eventually(t, "the watch shows the report", func() bool { return stateOfFirst(router) == Accepted })
		verified(t, router, app(named), 60, types.Verified)
		succeed(t, router.SetWeight(app(named), 80, nil))
		verified(t, router, app(named), 80, types.NotVerified)
	})
	t.Run("refused an earlier state, and never reports again", func(t *testing.T) {
		server := newServer(t, httpRoute("app"))
		router := newRouter(t, server)
		route := split(t, server, router, named)
		server.PutObject(httpRoutes, reported(route, 2, 1, false, "BackendNotFound"))
		eventually(t, "the watch shows the report", func() bool { return stateOfFirst(router) == Behind })
		verified(t, router, app(named), 20, types.NotVerified)
		router.routes.reports.backdate(behindPatience + time.Second)
		verified(t, router, app(named), 20, types.NotVerified)
		if router.routes.reports.judge(refOf(route), followed{route: watched(router)}).soon {
			t.Error("each call goes on to wait for it, and so holds up a worker of the controller")
		}
		requireEvent(t, server, reasonUnreported, "Gateway demo/public", "has refused an earlier state of the route", "BackendNotFound", "the weight is not verified until it is accepted")
		server.PutObject(httpRoutes, reported(stored(t, router, "app"), 2, 2, true, "Accepted"))
		eventually(t, "the watch shows the report", func() bool { return stateOfFirst(router) == Accepted })
		verified(t, router, app(named), 20, types.Verified)
	})
}

// stateOfFirst returns what the first parent of HTTPRoute app reports, as the watch shows
// it.
func stateOfFirst(router *Router) ParentState {
	parents := parentsOf(watched(router), nil)
	if len(parents) == 0 {
		return Unreported
	}
	return parents[0].State
}

// setReport gives HTTPRoute app a report, and waits until the watch shows it. Each condition
// is as in followedRoute.
func setReport(t *testing.T, server *apiservertest.Server, router *Router, conditions ...string) {
	t.Helper()
	route := stored(t, router, "app")
	route.Object["status"] = followedRoute(t, conditions...).route.Object["status"]
	server.PutObject(httpRoutes, route)
	eventually(t, "the watch shows the report", func() bool {
		return watched(router) != nil && watched(router).GetResourceVersion() >= stored(t, router, "app").GetResourceVersion()
	})
}

// firstRoute is HTTPRoute app at generation 1.
func firstRoute() *unstructured.Unstructured {
	route := httpRoute("app")
	route.SetGeneration(1)
	return route
}

// acceptedAt are the conditions of a parent that accepts a generation.
func acceptedAt(generation string) []string {
	return []string{"Accepted=True@" + generation, "ResolvedRefs=True@" + generation}
}

// A gateway that has followed the route and is stuck holds each weight, also at the maximum
// and in another process; after a minute an Event says what to do. One that never says which
// generation it reports on is passed by time.
func TestAStuckGateway(t *testing.T) {
	server := newServer(t, firstRoute())
	router := newRouter(t, server)
	succeed(t, router.SetWeight(app(named), 20, nil))
	setReport(t, server, router, acceptedAt("1")...)
	verified(t, router, app(named), 20, types.NotVerified)
	router.routes.reports.backdate(reportPatience + time.Second)
	verified(t, router, app(named), 20, types.NotVerified)
	for _, e := range server.Events() {
		t.Errorf("within a minute: %s %s", e.Reason, e.Message)
	}
	router.routes.reports.backdate(behindPatience)
	verified(t, router, app(named), 20, types.NotVerified)
	requireEvent(t, server, reasonUnreported, "HTTPRoute demo/app", "Gateway demo/public", "has not reported on this state", "the weight is not verified until it is accepted", "see whether the controller of the Gateway runs", "verification: off")

	again := newRouter(t, server)
	succeed(t, again.SetWeight(app(named), 100, nil))
	route := stored(t, again, "app")
	again.routes.reports.judge(refOf(route), followed{route: route})
	again.routes.reports.backdate(behindPatience + time.Second)
	verified(t, again, app(named), 100, types.NotVerified)
	requireEvent(t, server, reasonUnreported, "has not reported on this state", "at the maximum weight Argo Rollouts runs no analysis meanwhile: abort the Rollout")

	setReport(t, server, again, "Accepted=True", "ResolvedRefs=True")
	verified(t, again, app(named), 100, types.NotVerified)
	again.routes.reports.backdate(reportPatience + time.Second)
	verified(t, again, app(named), 100, types.Verified)
	requireEvent(t, server, reasonUnreported, "unreported", "the weight counts as verified")
}

// The way back to stable is held by no parent, also where it begins at the maximum weight
// and goes down as the stable side grows. An Event says what parents have against the route.
func TestTheWayBackIsNotHeld(t *testing.T) {
	dynamic := app(named)
	dynamic.Spec.Strategy.Canary.DynamicStableScale = true
	for name, change := range map[string]func(*v1alpha1.Rollout){
		"an abort":   func(ro *v1alpha1.Rollout) { ro.Status.Abort = true },
		"a rollback": func(ro *v1alpha1.Rollout) { ro.Status.CurrentPodHash = ro.Status.StableRS },
	} {
		t.Run(name, func(t *testing.T) {
			server := newServer(t, firstRoute())
			router := newRouter(t, server)
			succeed(t, router.SetWeight(dynamic, 100, nil))
			setReport(t, server, router, acceptedAt("1")...)
			router.routes.reports.backdate(behindPatience + time.Second)
			verified(t, router, dynamic, 100, types.NotVerified)
			back := dynamic.DeepCopy()
			change(back)
			for _, weight := range []int32{100, 60, 0} {
				succeed(t, router.SetWeight(back, weight, nil))
				verified(t, router, back, weight, types.Verified)
				if weight > 0 {
					router.routes.reports.backdate(behindPatience + time.Second)
					verified(t, router, back, weight, types.Verified)
					requireEvent(t, server, reasonUnreported, "has not reported on this state", "the way back to stable goes on")
				}
			}
			requireSplit(t, router, "app", "app-stable=100 app-canary=0")
		})
	}
}

// A Verified answer for the way back does not keep the next call from looking again.
func TestAnAbortSaysLaterThatAGatewayIsStuck(t *testing.T) {
	server := newServer(t, firstRoute())
	router := newRouter(t, server)
	succeed(t, router.SetWeight(app(named), 20, nil))
	setReport(t, server, router, acceptedAt("1")...)
	aborted := app(named)
	aborted.Status.Abort = true
	succeed(t, router.SetWeight(aborted, 0, nil))
	for range 3 {
		verified(t, router, aborted, 0, types.Verified)
	}
	router.routes.reports.backdate(behindPatience + time.Second)
	verified(t, router, aborted, 0, types.Verified)
	requireEvent(t, server, reasonUnreported, "has not reported on this state", "the way back to stable goes on")
}

// services are the Services of Rollout app, with port 80.
func services(names ...string) []*corev1.Service {
	var all []*corev1.Service
	for _, name := range names {
		all = append(all, &corev1.Service{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		})
	}
	return all
}

// What parents have had against the route before the first write, and still have in the same
// words, does not hold a weight, unless something of the Rollout's own is missing.
func TestABrokenRuleOfAnother(t *testing.T) {
	const unresolved, dropped = "ResolvedRefs=False@N BackendNotFound: Service other is gone", "PartiallyInvalid=True@N UnsupportedValue: Dropped Rule 2"
	const accepted, resolved = "Accepted=True@N", "ResolvedRefs=True@N"
	for name, tc := range map[string]struct {
		services      []*corev1.Service
		before, after []string
		want          types.RpcVerified
		event         []string
	}{
		"as before": {
			services("app-stable", "app-canary"), []string{accepted, unresolved}, []string{accepted, unresolved}, types.Verified,
			[]string{"Service other is gone", "before the canary", "the weight counts as verified"},
		},
		"some rules dropped as before": {
			services("app-stable", "app-canary"), []string{accepted, resolved, dropped}, []string{accepted, resolved, dropped}, types.Verified,
			[]string{"Dropped Rule 2", "the weight counts as verified"},
		},
		"as before, and our Service is missing": {
			services("app-stable"), []string{accepted, unresolved}, []string{accepted, unresolved}, types.NotVerified,
			[]string{"Service other is gone", "Service demo/app-canary does not exist", "the weight is not verified until it is accepted"},
		},
		"another message": {
			services("app-stable", "app-canary"), []string{accepted, unresolved}, []string{accepted, unresolved + ", and app-canary"}, types.NotVerified,
			[]string{"and app-canary", "the weight is not verified"},
		},
		"new": {
			services("app-stable", "app-canary"), []string{accepted, resolved}, []string{accepted, unresolved}, types.NotVerified,
			[]string{"Service other is gone", "the weight is not verified"},
		},
		"some rules dropped since": {
			services("app-stable", "app-canary"), []string{accepted, resolved}, []string{accepted, resolved, dropped}, types.NotVerified,
			[]string{"Dropped Rule 2", "the weight is not verified"},
		},
		"an earlier state is served, as before": {
			services("app-stable", "app-canary"), []string{accepted, resolved, "PartiallyInvalid=True@N UnsupportedValue: Fall Back: rule 2"},
			[]string{accepted, resolved, "PartiallyInvalid=True@N UnsupportedValue: Fall Back: rule 2"}, types.NotVerified,
			[]string{"Fall Back: rule 2", "the weight is not verified"},
		},
		"not accepted, as before": {
			services("app-stable", "app-canary"), []string{"Accepted=False@N NoMatchingParent: no listener", resolved},
			[]string{"Accepted=False@N NoMatchingParent: no listener", resolved}, types.NotVerified,
			[]string{"no listener", "the weight is not verified"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := newServer(t, firstRoute())
			for _, service := range tc.services {
				server.PutObject("services", service)
			}
			router := newRouter(t, server)
			at := func(conditions []string) []string {
				generation := strconv.FormatInt(stored(t, router, "app").GetGeneration(), 10)
				var all []string
				for _, c := range conditions {
					all = append(all, strings.ReplaceAll(c, "@N", "@"+generation))
				}
				return all
			}
			setReport(t, server, router, at(tc.before)...)
			for _, weight := range []int32{20, 40} {
				succeed(t, router.SetWeight(app(named), weight, nil))
				setReport(t, server, router, at(tc.after)...)
				verified(t, router, app(named), weight, tc.want)
			}
			requireEvent(t, server, reasonRefused, tc.event...)
		})
	}
}

// At weight 0 a header route that a gateway refuses is no reason to hold the canary, but an
// Event says so. Without header routes nothing is looked at.
func TestARefusedHeaderRouteAtWeightZero(t *testing.T) {
	server := newServer(t, firstRoute())
	router := newRouter(t, server)
	ro := headers()
	succeed(t, router.SetWeight(at(ro, 0), 0, nil))
	setReport(t, server, router, "Accepted=False@1 UnsupportedValue: before")
	verified(t, router, at(ro, 0), 0, types.Verified)
	succeed(t, router.SetHeaderRoute(at(ro, 0), ro.Spec.Strategy.Canary.Steps[0].SetHeaderRoute))
	succeed(t, router.SetWeight(at(ro, 0), 0, nil))
	setReport(t, server, router, acceptedAt("1")...)
	began := time.Now()
	verified(t, router, at(ro, 0), 0, types.Verified)
	if took := time.Since(began); took >= reportWait {
		t.Errorf("the call has waited for %s", took)
	}
	for _, e := range server.Events() {
		t.Errorf("before the report: %s %s", e.Reason, e.Message)
	}
	setReport(t, server, router, "Accepted=False@9 UnsupportedValue: no such header", "ResolvedRefs=True@9")
	// The controller does not call again, and the Event comes nevertheless.
	requireEvent(t, server, reasonRefused, "no such header", "requests may not take the canary's header and mirror routes")
}

// What is kept of a route goes with it.
func TestARouteThatIsDeletedIsForgotten(t *testing.T) {
	server := newServer(t, firstRoute())
	router := newRouter(t, server)
	succeed(t, router.SetWeight(app(named), 20, nil))
	verified(t, router, app(named), 20, types.NotVerified)
	ref := refOf(firstRoute())
	if !router.routes.reports.known(ref) {
		t.Fatal("the route is not known")
	}
	server.Delete(httpRoutes, "demo", "app")
	eventually(t, "the watch shows that", func() bool { return watched(router) == nil })
	router.routes.reports.wrote(refOf(httpRoute("second")), httpRoute("second"))
	if router.routes.reports.known(ref) {
		t.Error("the route is still known")
	}
}
