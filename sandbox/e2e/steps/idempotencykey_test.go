package steps

import (
	"net/http"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

const apiToken = "api-token-of-the-warm-up"

// warmUps is a stand-in for an API that honours Idempotency-Key: a request with a key that it
// has seen gets the answer to the first one.
type warmUps struct {
	standIn
	// keys are those of the work that was done, asked counts the requests for it.
	keys  []string
	asked int
}

func (a *warmUps) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var body struct{ Service, Image string }
	err, key := readJSON(r, &body), r.Header.Get("Idempotency-Key")
	switch {
	case r.Header.Get("Authorization") != "Bearer "+apiToken:
		a.refuse(w, r, http.StatusUnauthorized, "no token")
	case r.Method != http.MethodPost || r.URL.Path != "/v1/warm-ups":
		a.refuse(w, r, http.StatusNotFound, "no such resource")
	case err != nil || body.Service == "" || body.Image == "" || key == "":
		a.refuse(w, r, http.StatusBadRequest, "key %q, %+v: %v", key, body, err)
	default:
		a.asked++
		if !strings.Contains(strings.Join(a.keys, " "), key) {
			a.keys = append(a.keys, key)
		}
		a.answer(w, http.StatusCreated, map[string]any{"entries": 1200})
	}
}

func (a *warmUps) done() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string{}, a.keys...)
}

// The sample of an API with Idempotency-Key: a request without an answer is made again with the
// same key, and another canary has another one.
func TestIdempotencyKeySample(t *testing.T) {
	t.Parallel()
	a, n := &warmUps{standIn: standIn{loseAnswer: true}}, e2etest.NewNamespace(t)
	manifests := sample(t, "idempotency-key.yaml", "api.example.com", e2etest.Serve(t, a))
	name := startSample(t, n, manifests, "name: api}\nstringData: {token: "+apiToken+"}")
	n.AwaitHealthy(name, e2etest.Image("yellow"))
	first := a.done()
	if a.mu.Lock(); len(first) != 1 || a.asked < 2 {
		t.Errorf("%d requests with the keys %q, want one key, twice", a.asked, first)
	}
	a.mu.Unlock()
	n.SetImage(name, e2etest.Image("green"))
	n.AwaitHealthy(name, e2etest.Image("green"))
	if both := a.done(); len(both) != 2 || both[0] != first[0] {
		t.Errorf("keys %q after %q, want one for each canary", both, first)
	}
	a.requireNoneRefused(t)
	requireHidden(t, n, apiToken)
}
