package httpstep

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"golang.org/x/oauth2"
)

const withOAuth = `{"request": {"url": "OUTSIDE/runs", "auth": {"oauth2": {"tokenURL": "OUTSIDE/token", "clientID": "id", "clientSecret": {"valueFrom": {"secretKeyRef": {"name": "ci", "key": "client"}}}, "scopes": ["a", "b"]}}}}`

// issuer gives out tokens, each of which is good until it is revoked.
type issuer struct {
	issued, revoked atomic.Int32
	// refuse answers instead of giving a token, while it is set.
	refuse atomic.Pointer[http.HandlerFunc]
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/token" {
		var n int32
		if _, err := fmt.Sscanf(r.Header.Get("Authorization"), "Bearer t0ken-%d", &n); err != nil || n <= i.revoked.Load() {
			w.WriteHeader(http.StatusUnauthorized)
		}
		return
	}
	if refuse := i.refuse.Load(); refuse != nil {
		(*refuse)(w, r)
		return
	}
	id, secret, _ := r.BasicAuth()
	if err := r.ParseForm(); err != nil || id != "id" || secret != "cl13nt" || r.Form.Get("grant_type") != "client_credentials" || r.Form.Get("scope") != "a b" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"access_token": "t0ken-%d", "token_type": "bearer", "expires_in": 600}`, i.issued.Add(1))
}

func TestOAuth2(t *testing.T) {
	i := &issuer{}
	o := newOutside(t, i.ServeHTTP)
	h := newHost(t, o, withOAuth)
	h.putSecret("demo", "ci", map[string]string{"client": "cl13nt"})
	again := func() {
		t.Helper()
		h.status = nil
		h.ro.Annotations["rollout.argoproj.io/revision"] += "1"
		h.run()
	}
	for range 3 {
		again()
		h.require(types.PhaseSuccessful)
	}
	if n := i.issued.Load(); n != 1 {
		t.Errorf("%d tokens for three requests, want one that is kept", n)
	}
	i.revoked.Store(1)
	again()
	h.require(types.PhaseSuccessful)
	if n := i.issued.Load(); n != 2 {
		t.Errorf("%d tokens after the first was revoked, want 2", n)
	}
	h.kind.now = func() time.Time { return time.Now().Add(9*time.Minute + 30*time.Second) }
	again()
	h.require(types.PhaseSuccessful)
	if n := i.issued.Load(); n != 3 {
		t.Errorf("%d tokens after the second was about to expire, want 3", n)
	}
	i.revoked.Store(100)
	again()
	h.require(types.PhaseFailed, "answered 401 Unauthorized")
	// Only a request with a cached token is repeated.
	if n := o.count("POST", "/runs"); n != 3+2+1+1 {
		t.Errorf("%d requests, want 7", n)
	}
}

func TestOAuth2WithoutAToken(t *testing.T) {
	for name, test := range map[string]struct {
		refuse http.HandlerFunc
		phase  types.StepPhase
		words  string
	}{
		"refused": {func(w http.ResponseWriter, r *http.Request) {
			_, secret, _ := r.BasicAuth()
			w.WriteHeader(400)
			fmt.Fprintf(w, `{"error": "invalid_client", "error_description": "not %s"}`, secret)
		}, types.PhaseFailed, "request.auth.oauth2: POST OUTSIDE answered 400 Bad Request: {\"error\": \"invalid_client\""},
		"busy": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "120")
			w.WriteHeader(429)
		}, types.PhaseRunning, "POST OUTSIDE answered 429"},
		"down":      {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, types.PhaseRunning, "POST OUTSIDE answered 503"},
		"no answer": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, types.PhaseRunning, "request.auth.oauth2: POST OUTSIDE: EOF"},
		"an error, answered 201": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(201)
			fmt.Fprint(w, `{"error": "slow_down"}`)
		}, types.PhaseRunning, "request.auth.oauth2: POST OUTSIDE: oauth2: \"slow_down\""},
		"no token": {answer200(`{}`), types.PhaseRunning, "missing access_token"},
		"no JSON":  {answer200(`<html>`), types.PhaseRunning, "request.auth.oauth2: POST OUTSIDE: "},
		"redirected": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, types.PhaseFailed, "answered 307"},
	} {
		t.Run(name, func(t *testing.T) {
			i := &issuer{}
			i.refuse.Store(&test.refuse)
			o := newOutside(t, i.ServeHTTP)
			h := newHost(t, o, strings.Replace(withOAuth, `{"request"`, `{"onUnknown": "Fail", "request"`, 1))
			h.putSecret("demo", "ci", map[string]string{"client": "cl13nt"})
			h.run()
			h.run()
			h.require(test.phase, strings.ReplaceAll(test.words, "OUTSIDE", o.URL))
			if name == "busy" && h.last.RequeueAfter != 2*time.Minute {
				t.Errorf("asked to come back in %s, want 2m", h.last.RequeueAfter)
			}
			if o.count("POST", "/runs") != 0 || o.count("POST", "/elsewhere") != 0 || strings.Contains(h.last.Message, "cl13nt") {
				t.Errorf("got %v; %s", o.all(), h.last.Message)
			}
			if test.phase == types.PhaseRunning {
				i.refuse.Store(nil)
				h.run()
				h.require(types.PhaseSuccessful)
			}
		})
	}
	o := newOutside(t, answer200(""))
	h := newHost(t, o, strings.Replace(withOAuth, "OUTSIDE/token", "https://evil.example/token", 1))
	h.putSecret("demo", "ci", map[string]string{"client": "cl13nt"})
	h.run()
	h.require(types.PhaseFailed, `host "evil.example" is not allowed`)
}

// A token without an expiry is used for an hour, and then still kept out of messages.
func TestATokenWithoutAnExpiry(t *testing.T) {
	kind := newKind(t)
	now := time.Now()
	kind.now = func() time.Time { return now }
	key := tokenKey{7}
	if token, isValid := kind.keptToken(key); token != nil || isValid {
		t.Errorf("got %v, %v before there is one", token, isValid)
	}
	kind.keepToken(key, &oauth2.Token{AccessToken: "t"})
	for _, want := range []bool{true, false} {
		if token, isValid := kind.keptToken(key); token == nil || isValid != want {
			t.Errorf("got %v, %v, want a token and %v", token, isValid, want)
		}
		now = now.Add(tokenKept)
	}
}

func TestALargeToken(t *testing.T) {
	o := newOutside(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token": %q}`, strings.Repeat("t", 9000))
	})
	h := newHost(t, o, withOAuth)
	h.putSecret("demo", "ci", map[string]string{"client": "cl13nt"})
	h.run()
	h.require(types.PhaseFailed, "request.auth.oauth2: the token has 9000 bytes: want 8192 at most")
}
