package httpstep

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/utils/plugin/types"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// listed is a step for an API that does not tell the id of what it starts, but lists it some
// time later.
const listed = `{
	"server": {"url": "OUTSIDE/repos/acme/shop/actions"}, "request": {"url": "/workflows/e2e.yaml/dispatches", "json": {"inputs": {"key": "{{ step.key }}"}}},
	"find": {"url": "/workflows/e2e.yaml/runs", "found": "response.json.workflow_runs.exists(r, r.display_title == step.key)",
		"outputs": {"run": "response.json.workflow_runs.filter(r, r.display_title == step.key)[0].id"}},
	"poll": {"url": "/workflows/e2e.yaml/runs", "successCondition": "false",
		"outputs": {"run": "response.json.workflow_runs.filter(r, r.display_title == step.key)[0].id"}},
	"cancel": {"url": "/runs/{{ outputs.run }}/cancel"}, "message": "run {{ outputs[?'run'].orValue('has not begun yet') }}"
}`

// A canary ends before the API lists the run that it was asked to start: the run is cancelled
// once it is listed.
func TestARunThatIsListedLaterIsCancelled(t *testing.T) {
	calls := map[string]func(*host) types.RpcStepResult{
		"abort":          func(h *host) types.RpcStepResult { r, _ := h.plugin.Abort(h.ro, h.call()); return r },
		"promote --full": func(h *host) types.RpcStepResult { r, _ := h.plugin.Terminate(h.ro, h.call()); return r },
	}
	for name, call := range calls {
		for polls := range 2 {
			for _, later := range []int{1, 6} {
				t.Run(fmt.Sprintf("%s after %d polls, listed at look %d", name, polls, polls+later), func(t *testing.T) {
					t.Parallel()
					g := &github{old: true, listedAt: 1 + polls + later} // the first look is that of the start
					h := newHost(t, newOutside(t, g.ServeHTTP), listed)
					for range 1 + polls {
						h.run()
						h.require(types.PhaseRunning, "run has not begun yet")
					}
					if result := call(h); result.Phase != types.PhaseSuccessful {
						t.Errorf("got %s %q", result.Phase, result.Message)
					}
					eventually(t, "the run is cancelled", func() bool { _, cancelled, _ := g.state(); return cancelled == "17" })
					if _, _, wrong := g.state(); wrong > 0 {
						t.Errorf("%d requests for what there is not", wrong)
					}
				})
			}
		}
	}
}

// If cancel has all values that it needs, an outside system that cannot be polled does
// not hold it up.
func TestCancelWithoutALook(t *testing.T) {
	o := newOutside(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet:
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/runs":
			fmt.Fprint(w, `{"run": 7}`)
		}
	})
	h := newHost(t, o, `{
		"request": {"url": "OUTSIDE/runs"}, "outputs": {"run": "response.json.run"},
		"poll": {"url": "OUTSIDE/poll", "outputs": {"report": "response.json.report"}}, "cancel": {"url": "OUTSIDE/cancel/{{ outputs.run }}"}
	}`)
	h.run()
	result, _ := h.plugin.Terminate(h.ro, h.call())
	if result.Phase != types.PhaseSuccessful || o.count("POST", "/cancel/7") != 1 {
		t.Errorf("got %s %q, %+v", result.Phase, result.Message, o.all())
	}
}

// An answer of find that is none, such as a gateway's page, does not end a start or a cancel.
func TestFindIsAskedAgain(t *testing.T) {
	pages := 1
	o := newOutside(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet && pages > 0:
			pages--
			answer200("<html>")(w, r)
		case r.Method == http.MethodGet:
			answer200(`{"runs": [7]}`)(w, r)
		}
	})
	a := newAttempt(t, o, `{"request": {"url": "OUTSIDE/runs"}, "find": {"url": "OUTSIDE", "found": "size(response.json.runs) > 0"}, "cancel": {"url": "OUTSIDE/cancel"}}`)
	_, _ = a.start("", "find.found: ")
	_, _ = a.start(steps.Successful, "found what an earlier request has started")
	a.work.Earlier, pages = steps.MayBeDone, 1
	var e *steps.Error
	if err := a.step.Cancel(t.Context(), a.work); err == nil || errors.As(err, &e) && e.Final {
		t.Errorf("got %v, want an error that another attempt mends", err)
	}
	if err := a.step.Cancel(t.Context(), a.work); err != nil || o.count("POST", "/cancel") != 1 || o.count("POST", "/runs") != 0 {
		t.Errorf("got %v, %+v", err, o.all())
	}
}
