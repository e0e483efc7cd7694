package steps

import (
	"net/http"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// An outage of an API that a canary only tells something neither aborts the canary nor holds it
// for longer than the minute of the step: whether the API refuses connections, fails, or does
// not answer at all.
func TestAnOutageHoldsNoTellingCanary(t *testing.T) {
	t.Parallel()
	outages := map[string]http.Handler{
		"refuses": nil,
		"fails": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "down for maintenance", http.StatusServiceUnavailable)
		}),
		"silent": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }),
	}
	for outage, handler := range outages {
		t.Run(outage, func(t *testing.T) {
			t.Parallel()
			n := e2etest.NewNamespace(t)
			var url string
			if handler != nil {
				url = e2etest.Serve(t, handler)
			} else {
				listener := e2etest.ListenForPods(t)
				url = "http://" + listener.Addr().String()
				_ = listener.Close()
			}
			// Presets are of all tests.
			preset := n.Name + "-chat"
			name := startSample(t, n, sample(t, "chat.yaml", "hooks.slack.com", url),
				"name: "+preset+"}\nstringData: {url: "+url+"/services/hidden}",
				"name: chat", "name: "+preset, "use: chat", "use: "+preset)
			ro := n.AwaitHealthy(name, e2etest.Image("yellow"))
			n.AwaitEvent("Rollout", name, "StepFailureIgnored", "POST "+url)
			s := stepStatus(ro, 1, v1alpha1.StepPluginOperationRun)
			if s == nil || s.StartedAt == nil || s.FinishedAt == nil {
				t.Fatalf("step %+v, want one with a beginning and an end", s)
			}
			// The call that ends the step comes 16 s after the one before it at the earliest: Argo
			// Rollouts adds 5 s to the 11 s that it takes at the least. On a busy machine it comes
			// later, but one call more would be later still.
			const lastCall, late = 16 * time.Second, 12 * time.Second
			if held := s.FinishedAt.Sub(s.StartedAt.Time); held > time.Minute+lastCall+late {
				t.Errorf("the step held the canary for %s, want a minute", held)
			}
			requireHidden(t, n, "services/hidden")
		})
	}
}
