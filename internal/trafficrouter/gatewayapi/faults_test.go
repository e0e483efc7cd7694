package gatewayapi

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/utils/plugin/types"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter"
)

// A fault of the API server at a write is the call's error, within the call's timeout;
// the route stays as it is until a call succeeds.
func TestFaultsOfTheAPIServer(t *testing.T) {
	answer := func(f func(http.ResponseWriter, *http.Request, apiservertest.Request)) apiservertest.Fault {
		return func(w http.ResponseWriter, r *http.Request, request apiservertest.Request) bool {
			if request.Verb != "patch" && request.Verb != "update" {
				return false
			}
			f(w, r, request)
			return true
		}
	}
	for name, tc := range map[string]struct {
		fault apiservertest.Fault
		want  string
	}{
		"forbidden": {answer(func(w http.ResponseWriter, _ *http.Request, r apiservertest.Request) { apiservertest.Forbidden(w, r) }),
			"may not patch httproutes.gateway.networking.k8s.io: apply ClusterRole argo-rollouts-gatewayapi"},
		"conflict": {answer(func(w http.ResponseWriter, _ *http.Request, r apiservertest.Request) { apiservertest.Conflict(w, r) }),
			"HTTPRoute demo/app: patch: it keeps being changed by others"},
		"500": {answer(func(w http.ResponseWriter, _ *http.Request, r apiservertest.Request) { apiservertest.Fail(w, 500, r) }),
			"HTTPRoute demo/app: patch failed"},
		"429": {answer(func(w http.ResponseWriter, _ *http.Request, r apiservertest.Request) {
			apiservertest.ComeBack(w, 429, 30, r)
		}), "HTTPRoute demo/app: patch: the API server is too busy, and asks to come back in 30 s"},
		"no answer": {answer(func(_ http.ResponseWriter, r *http.Request, _ apiservertest.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // only a server that has read the body notices that the client has left
			<-r.Context().Done()
		}), "HTTPRoute demo/app: patch: no answer from the API server within 1.5s"},
		"connection cut": {answer(func(http.ResponseWriter, *http.Request, apiservertest.Request) { panic(http.ErrAbortHandler) }),
			"HTTPRoute demo/app: patch failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, httpRoute("app"))
			router := newRouter(t, server)
			router.Timeout = 1500 * time.Millisecond
			ro := app(`{"httpRoute": "app", "verification": "off"}`)
			succeed(t, router.SetWeight(ro, 20, nil))
			server.SetFault(tc.fault)
			started := time.Now()
			if name == "forbidden" { // it would be so again: the split is held
				succeed(t, router.SetWeight(ro, 50, nil))
				requireEvent(t, server, trafficrouter.ReasonError, tc.want)
				fail(t, router.SetWeight(ro, 10, nil), tc.want, "SetWeight for Rollout demo/app")
			} else {
				fail(t, router.SetWeight(ro, 50, nil), tc.want, "SetWeight for Rollout demo/app")
			}
			if took := time.Since(started); took > 5*time.Second {
				t.Errorf("the call took %s, its bound is %s", took, router.Timeout)
			}
			verified(t, router, ro, 50, types.NotVerified)
			requireSplit(t, router, "app", "app-stable=80 app-canary=20")
			server.SetFault(nil)
			succeed(t, router.SetWeight(ro, 50, nil))
			verified(t, router, ro, 50, types.Verified)
			requireSplit(t, router, "app", "app-stable=50 app-canary=50")
		})
	}
}
