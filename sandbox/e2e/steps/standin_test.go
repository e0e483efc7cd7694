package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// standIn is what the stand-ins of APIs have in common: the requests that the API would not
// take, and that it may lose an answer.
type standIn struct {
	mu sync.Mutex
	// loseAnswer makes it carry out the next request that changes something without an answer.
	loseAnswer bool
	refused    []string
}

// refuse answers a request that the API would not take.
func (s *standIn) refuse(w http.ResponseWriter, r *http.Request, code int, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	s.refused = append(s.refused, fmt.Sprintf("%s %s: %s", r.Method, r.URL.Path, message))
	http.Error(w, message, code)
}

// answer answers a request that has changed something, unless this answer is to be lost.
func (s *standIn) answer(w http.ResponseWriter, code int, body any) {
	if s.loseAnswer {
		s.loseAnswer = false
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if body != nil {
		_ = json.NewEncoder(w).Encode(body)
	}
}

// requireNoneRefused fails the test if there was a request that the API would not take.
func (s *standIn) requireNoneRefused(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, refused := range s.refused {
		t.Errorf("the API would not take %s", refused)
	}
}

// readJSON reads the body of a request, which has to be JSON with no other keys than value
// has.
func readJSON(r *http.Request, value any) error {
	if has := r.Header.Get("Content-Type"); has != "application/json" {
		return errors.New("Content-Type is " + has)
	}
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	return decoder.Decode(value)
}

// startSample starts a canary of the Rollout of a sample, after all else that the sample has, and
// its Secret in the controller's namespace. change is pairs of texts that are replaced in
// the Rollout and its presets. It returns the name of the Rollout.
func startSample(t *testing.T, n *e2etest.Namespace, manifests []string, secret string, change ...string) string {
	t.Helper()
	if secret != "" {
		n.Apply("apiVersion: v1\nkind: Secret\nmetadata: {namespace: argo-rollouts, " + secret + "\n")
	}
	all := strings.Join(manifests, "\n---\n")
	for i := 0; i < len(change); i += 2 {
		if !strings.Contains(all, change[i]) {
			t.Fatalf("the sample does not have %q, which the test replaces", change[i])
		}
	}
	parts := strings.Split(strings.NewReplacer(change...).Replace(all), "\n---\n")
	last := parts[len(parts)-1]
	if others := parts[:len(parts)-1]; len(others) > 0 {
		n.Apply(strings.Join(others, "\n---\n"))
	}
	objects, err := e2etest.Decode(last)
	if err != nil || len(objects) != 1 || objects[0].GetKind() != "Rollout" {
		t.Fatalf("the sample does not end with a Rollout: %v", err)
	}
	name := objects[0].GetName()
	start(t, n, map[string]string{name: last})
	return name
}

// requireHidden fails the test if a secret is in the Rollouts or the Events of a namespace.
func requireHidden(t *testing.T, n *e2etest.Namespace, secrets ...string) {
	t.Helper()
	said := n.Kubectl("get", "rollouts,events", "-o", "yaml")
	if i := slices.IndexFunc(secrets, func(secret string) bool { return strings.Contains(said, secret) }); i >= 0 {
		t.Errorf("%s is in the Rollouts or their Events", secrets[i])
	}
}

// awaitTexts waits until as many texts were said to an API as wanted, each of which contains
// the wanted one.
func awaitTexts(t *testing.T, what string, said func() []string, want ...string) {
	t.Helper()
	e2etest.Eventually(t, e2etest.Patience, what, func(context.Context) error {
		got := said()
		for i := range want {
			if len(got) != len(want) || !strings.Contains(got[i], want[i]) {
				return fmt.Errorf("got %q, want %q", got, want)
			}
		}
		return nil
	})
}
