package httpstep

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// standIn is a stand-in for an API, which takes what the API takes by its documentation, and
// nothing else.
type standIn struct {
	mu sync.Mutex
	// take carries a call out. A status of 400 or more refuses it.
	take func(apiCall) (status int, answer any)
	// state is what the API has after all.
	state []string
	// lose is how many answers to calls that change something are lost, down how many calls
	// are answered with 503 before they are carried out.
	lose, down int
	// refused are the calls that the API does not take, keys the Idempotency-Keys.
	refused, keys []string
}

// apiCall is a call of an API.
type apiCall struct {
	*http.Request
	query url.Values
	body  []byte
}

// is tells whether a call has a method and a path.
func (c apiCall) is(method, path string) bool { return c.Method == method && c.URL.Path == path }

// bearer tells whether a call has a token.
func (c apiCall) bearer(token string) bool { return c.Header.Get("Authorization") == "Bearer "+token }

// read reads a body of JSON, which has no key that value has not.
func (c apiCall) read(value any) error {
	if has := c.Header.Get("Content-Type"); has != "application/json" {
		return fmt.Errorf("Content-Type %s", has)
	}
	decoder := json.NewDecoder(bytes.NewReader(c.body))
	decoder.DisallowUnknownFields()
	return decoder.Decode(value)
}

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down > 0 {
		s.down--
		http.Error(w, "down for maintenance", http.StatusServiceUnavailable)
		return
	}
	body, _ := io.ReadAll(r.Body)
	status, answer := s.take(apiCall{r, r.URL.Query(), body})
	refusal, _ := answer.(refusal)
	if status >= 400 || refusal != "" {
		s.refused = append(s.refused, fmt.Sprintf("%s %s %s: %d %v", r.Method, r.URL.Path, body, status, answer))
	}
	if refusal != "" {
		answer = json.RawMessage(refusal)
	}
	if r.Method != http.MethodGet {
		if key := r.Header.Get("Idempotency-Key"); !slices.Contains(s.keys, key) {
			s.keys = append(s.keys, key)
		}
		if s.lose > 0 {
			s.lose--
			panic(http.ErrAbortHandler)
		}
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	if answer != nil {
		_ = json.NewEncoder(w).Encode(answer)
	}
}

// refusal is an answer of 2xx that refuses a call.
type refusal string

// has returns what the API has, a line each, and what it has refused.
func (s *standIn) has() (state string, refused []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.state, "\n"), s.refused
}
