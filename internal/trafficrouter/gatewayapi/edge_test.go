package gatewayapi

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/hashicorp/go-hclog"
	k8stypes "k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
)

func nameOf(ro *v1alpha1.Rollout) k8stypes.NamespacedName {
	return k8stypes.NamespacedName{Namespace: ro.Namespace, Name: ro.Name}
}

// Argo Rollouts removes the header routes while no pod of the canary is available, and later
// sets those of the current step alone: the first weight after that sets those of passed
// steps again.
func TestHeaderRoutesComeBackWithTheCanary(t *testing.T) {
	server := newServer(t, httpRoute("app"))
	router := newRouter(t, server)
	ro := headers()
	step := ro.Spec.Strategy.Canary.Steps[0].SetHeaderRoute
	succeed(t, router.SetHeaderRoute(at(ro, 0), step))
	succeed(t, router.SetWeight(at(ro, 1), 20, nil))
	const canary = "app-stable=80 app-canary=20; app-canary=1"
	requireSplit(t, router, "app", canary)
	succeed(t, router.RemoveManagedRoutes(at(ro, 1)))
	succeed(t, router.SetWeight(at(ro, 1), 0, nil))
	requireSplit(t, router, "app", "app-stable=100 app-canary=0")
	requireEvent(t, server, reasonRoute, "no pod of the canary is available")
	succeed(t, router.SetWeight(at(ro, 1), 20, nil))
	requireSplit(t, router, "app", canary)
	// Not in an abort, nor where the steps have removed it.
	aborted := at(ro, 1)
	aborted.Status.Abort = true
	succeed(t, router.RemoveManagedRoutes(aborted))
	succeed(t, router.SetWeight(aborted, 0, nil))
	succeed(t, router.SetWeight(aborted, 0, nil))
	requireSplit(t, router, "app", "app-stable=100 app-canary=0")
	succeed(t, router.SetWeight(at(ro, 3), 20, nil))
	requireSplit(t, router, "app", "app-stable=80 app-canary=20")
}

// A CRD that gets the field percent counts without a restart.
func TestAMirrorAfterAnUpdateOfTheCRD(t *testing.T) {
	server := newServer(t, httpRoute("app"))
	router := newRouter(t, server)
	dropPercents(server)
	ro := app(named)
	percentage := int32(10)
	step := &v1alpha1.SetMirrorRoute{Name: "shadow", Percentage: &percentage, Match: []v1alpha1.RouteMatch{{Method: &v1alpha1.StringMatch{Exact: "GET"}}}}
	fail(t, router.SetMirrorRoute(ro, step), "percent")
	server.SetFault(nil)
	fail(t, router.SetMirrorRoute(ro, step), "percent") // not tried again at each call
	long := time.Now().Add(-askAgain)
	router.routes.mirroring.dropped.Store(&long)
	succeed(t, router.SetMirrorRoute(ro, step))
	if got := mirrorPercents(stored(t, router, "app")); got != 1 {
		t.Errorf("%d mirrors have a percentage", got)
	}
}

// A kind that is served and may not be watched makes no call slow, also where calls search
// all kinds: unchanged calls are answered from memory.
func TestAKindThatMayNotBeWatched(t *testing.T) {
	for name, heals := range map[string]bool{"with self-healing": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			server := newServer(t, httpRoute("app"))
			refuse(server, "tcproutes", "", "list", "watch")
			counting := &countingStore{}
			router := newRouterOf(server.Config, hclog.NewNullLogger(), Options{SelfHeal: heals}, func(s *store) routes {
				counting.store = s
				return counting
			})
			t.Cleanup(router.Close)
			ro := app(named)
			eventually(t, "an unchanged call reads nothing", func() bool {
				before := counting.reads.Load()
				began := time.Now()
				succeed(t, router.SetWeight(ro, 20, nil))
				if took := time.Since(began); took > 5*time.Second {
					t.Fatalf("a call took %s", took)
				}
				return before == counting.reads.Load()
			})
		})
	}
}

// A copy of the live manifest in another namespace, annotation included, is nobody's orphan.
func TestACopyOfTheLiveManifestIsLeftAlone(t *testing.T) {
	server := newServer(t, httpRoute("app"))
	router := looking(t, server)
	succeed(t, router.SetWeight(app(named), 20, nil))
	copied := stored(t, router, "app")
	copied.SetNamespace("tenant")
	server.PutObject(httpRoutes, copied)
	var writes atomic.Int32
	server.SetFault(func(_ http.ResponseWriter, _ *http.Request, r apiservertest.Request) bool {
		if r.Namespace == "tenant" && r.Verb != "get" {
			writes.Add(1)
		}
		return false
	})
	eventually(t, "the watch shows the copy", func() bool {
		route, _ := router.routes.Group.Watched("HTTPRoute", "tenant", "app")
		return route != nil
	})
	ro := app(`{"httpRoute": "second"}`)
	ro.Generation++
	server.PutObject(rolloutResource, ro)
	router.TakeOff(t.Context())
	succeed(t, router.SetWeight(app(named), 0, nil))
	if writes.Load() > 0 {
		t.Errorf("%d writes of the copy", writes.Load())
	}
}
