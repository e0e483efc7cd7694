package httpstep

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/utils/plugin/types"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "90": 90 * time.Second, "86400": maxRetryAfter, "99999999999999999999": 0, "-5": 0, "soon": 0, "1.5": 0,
		"Sun, 01 Mar 2026 12:02:00 GMT": 2 * time.Minute, "Sunday, 01-Mar-26 12:02:00 GMT": 2 * time.Minute,
		"Sun, 01 Mar 2026 11:00:00 GMT": 0, "Sun, 01 Mar 2099 11:00:00 GMT": maxRetryAfter,
	} {
		if got := retryAfter(http.Header{"Retry-After": {text}}, now); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
	for reset, want := range map[string]time.Duration{fmt.Sprint(now.Unix() + 90): 90 * time.Second, fmt.Sprint(now.Unix() - 90): 0, "soon": 0, "": 0} {
		header := http.Header{}
		header.Set("x-ratelimit-remaining", "0")
		header.Set("x-ratelimit-reset", reset)
		if got := retryAfter(header, now); got != want {
			t.Errorf("a rate limit until %q: got %s, want %s", reset, got, want)
		}
		header.Set("x-ratelimit-remaining", "1")
		if got := retryAfter(header, now); got != 0 {
			t.Errorf("%s with requests left", got)
		}
	}
}

// The first answers of the outside system, and what becomes of the step.
func TestAnswersThatAreTriedAgain(t *testing.T) {
	for name, test := range map[string]struct {
		first      http.HandlerFunc
		words      string
		retryAfter time.Duration
	}{
		"429, with seconds": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "120")
			http.Error(w, "slow\ndown", http.StatusTooManyRequests)
		}, "answered 429 Too Many Requests: slow down", 2 * time.Minute},
		"503, with a date": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", time.Now().Add(3*time.Minute+500*time.Millisecond).UTC().Format(http.TimeFormat))
			w.WriteHeader(http.StatusServiceUnavailable)
		}, "answered 503 Service Unavailable", 3 * time.Minute},
		"403, with seconds": {status(403, "Retry-After", "120"), "answered 403 Forbidden", 2 * time.Minute},
		"403, none left":    {status(403, "x-ratelimit-remaining", "0"), "answered 403 Forbidden", 15 * time.Second},
		"408":               {status(408), "answered 408 Request Timeout", 15 * time.Second},
		"425":               {status(425), "answered 425 Too Early", 15 * time.Second},
		"500":               {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, "answered 500 Internal Server Error", 15 * time.Second},
		"599":               {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(599) }, "answered 599", 15 * time.Second},
		"no answer":         {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF", 15 * time.Second},
	} {
		for _, what := range []string{"request", "poll"} {
			t.Run(what+" "+name, func(t *testing.T) {
				var faults atomic.Int32
				faults.Store(2)
				o := newOutside(t, func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/"+what && faults.Add(-1) >= 0 {
						test.first(w, r)
					}
				})
				h := newHost(t, o, `{"request": {"url": "OUTSIDE/request", "idempotent": true}, "poll": {"url": "OUTSIDE/poll", "method": "POST"}}`)
				if what == "poll" {
					h.run()
				}
				for range 2 {
					h.run()
					h.require(types.PhaseRunning, test.words)
					if got := h.last.RequeueAfter.Round(5 * time.Second); got != test.retryAfter {
						t.Errorf("asked to come back in %s, want %s", h.last.RequeueAfter, test.retryAfter)
					}
				}
				h.until(3)
				h.require(types.PhaseSuccessful)
				keys := map[string]bool{}
				for _, r := range o.all() {
					if r.path == "/request" {
						keys[r.header.Get("Idempotency-Key")] = true
					}
				}
				if len(keys) != 1 {
					t.Errorf("the request was made under %d keys, want one", len(keys))
				}
			})
		}
	}
}

func TestNobodyListens(t *testing.T) {
	o := newOutside(t, answer200(""))
	h := newHost(t, o, `{"onUnknown": "Fail", "request": {"url": "OUTSIDE"}}`)
	o.Close()
	for range 3 {
		h.run()
		h.require(types.PhaseRunning)
	}
	if !strings.Contains(h.last.Message, "connection refused") {
		t.Errorf("got %q", h.last.Message)
	}
}

func TestAnswersThatFailAnAttempt(t *testing.T) {
	for _, status := range []int{300, 302, 304, 399, 400, 401, 403, 404, 409, 410, 422, 426, 428, 451, 499} {
		o := newOutside(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/cancel" {
				w.WriteHeader(status)
				if status != http.StatusNotModified {
					fmt.Fprint(w, "why: \x1b[31m"+strings.Repeat("x", 500))
				}
			}
		})
		h := newHost(t, o, `{"retries": 1, "request": {"url": "OUTSIDE"}, "cancel": {"url": "OUTSIDE/cancel"}}`)
		eventually(t, "the step fails", func() bool { return h.run().Phase != types.PhaseRunning }) // the second attempt waits for the cancel
		h.require(types.PhaseFailed, fmt.Sprintf("POST %s answered %d", o.URL, status))
		if status != http.StatusNotModified && !strings.Contains(h.last.Message, "why: ") {
			t.Errorf("%d: message %q has not the beginning of the body", status, h.last.Message)
		}
		keys := map[string]int{}
		for _, r := range o.all() {
			keys[r.header.Get("Idempotency-Key")]++
		}
		// A refusal has done nothing; a redirect that leads nowhere may have.
		cancels := 0
		if status < 400 {
			cancels = 2
		}
		if len(keys) != 2+cancels || len(o.all()) != 2+cancels || o.count("POST", "/cancel") != cancels {
			t.Errorf("%d: got %v, want a request for each attempt and %d cancels, under keys of their own", status, keys, cancels)
		}
	}
}

// A poll that is refused leaves the work running, so the work is cancelled.
func TestAPollThatIsRefused(t *testing.T) {
	o := newOutside(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusForbidden)
		}
	})
	h := newHost(t, o, `{"request": {"url": "OUTSIDE"}, "poll": {"url": "OUTSIDE/run"}, "cancel": {"method": "DELETE", "url": "OUTSIDE/run"}}`)
	h.until(5)
	h.require(types.PhaseFailed, "answered 403 Forbidden", "the work was cancelled")
	if o.count("DELETE", "/run") != 1 {
		t.Error("the work was not cancelled")
	}
}

// The answer to a request is lost, or a server error leaves open whether it was carried
// out.
func TestRequestsThatMayHaveBeenCarriedOut(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"no answer": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"504":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(504) },
	} {
		t.Run(name, func(t *testing.T) {
			o := newOutside(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/runs" {
					answer(w, r)
				}
			})
			h := newHost(t, o, `{"onUnknown": "Fail", "request": {"url": "OUTSIDE/runs"}, "cancel": {"url": "OUTSIDE/cancel/{{ step.key }}"}}`)
			h.until(5)
			h.require(types.PhaseFailed, "it is not known whether the work was started (onUnknown: Fail)", "the work was cancelled")
			if o.count("POST", "/runs") != 1 || o.count("POST", "/cancel/"+first(o, "POST", "/runs").header.Get("Idempotency-Key")) != 1 {
				t.Errorf("got %v", o.all())
			}
		})
	}
	o := newOutside(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) })
	h := newHost(t, o, `{"onUnknown": "Fail", "request": {"url": "OUTSIDE/runs"}}`)
	for range 3 {
		h.run()
		h.require(types.PhaseRunning)
	}
}

func TestARequestThatTakesTooLong(t *testing.T) {
	o := newOutside(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	h := newHost(t, o, `{"request": {"url": "OUTSIDE", "timeout": "100ms"}}`)
	h.run()
	h.require(types.PhaseRunning, "POST "+o.URL+": timed out")
}
