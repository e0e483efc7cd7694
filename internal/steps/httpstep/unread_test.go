package httpstep

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/utils/plugin/types"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
)

// A Secret of request cannot be read, or no longer exists, while the step makes its other
// requests, whose answers repeat the secret.
func TestNoAnswerIsReadWithoutTheSecrets(t *testing.T) {
	const token = "s3cr3t-t0ken"
	for name, hide := range map[string]func(*host){
		"not granted": func(h *host) {
			h.api.SetFault(func(w http.ResponseWriter, _ *http.Request, r apiservertest.Request) bool {
				apiservertest.Forbidden(w, r)
				return true
			})
		},
		"no such key": func(h *host) { h.putSecret("demo", "ci", map[string]string{"other": "x"}) },
	} {
		t.Run(name, func(t *testing.T) {
			o := newOutside(t, func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/refused":
					http.Error(w, "no cancel with "+token, http.StatusForbidden)
				case "/poll":
					fmt.Fprintf(w, `{"with": %q}`, token)
				}
			})
			const config = `{
				"request": {"url": "OUTSIDE/runs", "headers": {"X-Key": {"valueFrom": {"secretKeyRef": {"name": "ci", "key": "token"}}}}},
				"poll": {"url": "OUTSIDE/poll", "successCondition": "false", "outputs": {"n": "size(response.text)"}}, "cancel": {"url": "OUTSIDE/CANCEL"}
			}`
			for _, cancel := range []string{"cancel", "refused"} {
				h := newHost(t, o, strings.Replace(config, "CANCEL", cancel, 1))
				h.putSecret("demo", "ci", map[string]string{"token": token})
				h.until(2)
				h.require(types.PhaseRunning)
				hide(h)
				before := o.count("GET", "/poll")
				h.run()
				h.require(types.PhaseRunning, "request.headers.X-Key: Secret demo/ci ")
				if o.count("GET", "/poll") != before {
					t.Error("the poll was made")
				}
				result, _ := h.plugin.Abort(h.ro, h.call())
				if done := result.Phase == types.PhaseSuccessful; done != (cancel == "cancel") || o.count("POST", "/"+cancel) == 0 {
					t.Errorf("%s: got %s %q", cancel, result.Phase, result.Message)
				}
				said := result.Message + string(h.status) + h.events.text() + h.logged()
				if strings.Contains(said, token) || cancel == "refused" && !strings.Contains(said, "the answer is not shown") {
					t.Errorf("said: %s", said)
				}
			}
		})
	}
}
