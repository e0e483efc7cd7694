package httpstep

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/utils/plugin/types"
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

// A canary ends before the outside system lists the run that it was asked to start: the
// run is cancelled once it is listed.
func TestTheSampleCancelsARunThatIsListedLater(t *testing.T) {
	calls := map[string]func(*host) types.RpcStepResult{
		"abort":          func(h *host) types.RpcStepResult { r, _ := h.plugin.Abort(h.ro, h.call()); return r },
		"promote --full": func(h *host) types.RpcStepResult { r, _ := h.plugin.Terminate(h.ro, h.call()); return r },
	}
	for name, call := range calls {
		for polls := range 2 {
			for _, later := range []int{1, 6} {
				t.Run(fmt.Sprintf("%s after %d polls, listed at look %d", name, polls, polls+later), func(t *testing.T) {
					t.Parallel()
					g := &github{listedAt: polls + later}
					h, _ := newSampleHost(t, g, `{}`)
					for range 1 + polls {
						h.run()
						h.require(types.PhaseRunning, "the end-to-end tests have not begun yet")
					}
					result := call(h)
					if done := result.Phase == types.PhaseSuccessful; done != (later == 1) {
						t.Errorf("got %s %q", result.Phase, result.Message)
					}
					if cancelled, _ := g.counts(); later > 1 && cancelled == 0 && !strings.Contains(result.Message, "cancel.url: ") {
						t.Errorf("got %q, which does not say what is missing", result.Message)
					}
					eventually(t, "the run is cancelled", func() bool { cancelled, _ := g.counts(); return cancelled == 1 })
					if _, wrong := g.counts(); wrong > 0 {
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
		"poll": {"url": "OUTSIDE/poll", "outputs": {"report": "response.json.report"}}, "cancel": {"url": "OUTSIDE/cancel/{{ .outputs.run }}"}
	}`)
	h.run()
	result, _ := h.plugin.Terminate(h.ro, h.call())
	if result.Phase != types.PhaseSuccessful || o.count("POST", "/cancel/7") != 1 {
		t.Errorf("got %s %q, %+v", result.Phase, result.Message, o.all())
	}
}
