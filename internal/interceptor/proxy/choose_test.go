package proxy

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

func TestSecondTriesOfEnvoyGoToTheSameService(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "", w.app(named("stable")))
	w.service("canary", "", w.app(named("canary")))
	w.service("gone", "")
	ask := func(address, service string, again bool) map[string]int {
		w.client = w.fromEnvoy(address, "demo/app", false, service)
		answers := make(map[string]int)
		for range 20 {
			r := w.request(http.MethodGet, "/", nil)
			if again {
				r.Header[routes.SecondTryHeader] = []string{"false"}
			}
			_, body := w.do(r)
			answers[body]++
		}
		return answers
	}
	w.object("stable=1 canary=1 gone=0")
	w.commit()
	address := w.serveFallback()
	split := map[string]int{"stable": 10, "canary": 10}
	for _, tt := range []struct {
		service string
		again   bool
		want    map[string]int
	}{
		{"canary", true, map[string]int{"canary": 20}},
		{"stable", true, map[string]int{"stable": 20}},
		{"canary", false, split},
		{"gone", true, split},
		{"unknown", true, split},
		{"", true, split},
	} {
		if diff := cmp.Diff(tt.want, ask(address, tt.service, tt.again)); diff != "" {
			t.Errorf("tried before %v at Service %q: answered by (-want +got):\n%s", tt.again, tt.service, diff)
		}
	}
	w.object("stable=1 canary=0 gone=0")
	w.commit()
	if diff := cmp.Diff(map[string]int{"stable": 20}, ask(address, "canary", true)); diff != "" {
		t.Errorf("of a Service whose weight is 0 now: answered by (-want +got):\n%s", diff)
	}
}
