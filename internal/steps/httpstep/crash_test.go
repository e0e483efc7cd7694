package httpstep

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/argoproj/argo-rollouts/utils/plugin/types"
)

// runs is an outside system that runs tests. With honours, it starts one run for each
// Idempotency-Key.
type runs struct {
	mu      sync.Mutex
	honours bool
	all     []string // the requested names
	byKey   map[string]int
	// lose makes the next answer be lost.
	lose bool
}

func (r *runs) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case request.Method == http.MethodPost && request.URL.Path == "/runs":
		var asked struct {
			Name string `json:"name"`
		}
		_ = json.NewDecoder(request.Body).Decode(&asked)
		key := request.Header.Get("Idempotency-Key")
		run, known := r.byKey[key]
		if !known || !r.honours {
			run = len(r.all)
			r.all, r.byKey[key] = append(r.all, asked.Name), run
		}
		if r.lose {
			r.lose = false
			panic(http.ErrAbortHandler)
		}
		fmt.Fprintf(w, `{"run": %d}`, run)
	case request.Method == http.MethodGet && request.URL.Path == "/runs":
		found := []string{}
		for run, name := range r.all {
			if name == request.URL.Query().Get("name") {
				found = append(found, fmt.Sprint(run))
			}
		}
		fmt.Fprintf(w, `{"runs": [%s]}`, strings.Join(found, ", "))
	default:
		fmt.Fprint(w, `{"state": "passed"}`)
	}
}

// loseNext makes the next answer be lost.
func (r *runs) loseNext() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lose = true
}

// started returns the requested names of the runs.
func (r *runs) started() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// forget removes all runs.
func (r *runs) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = nil
}

const startsARun = `
	"request": {"url": "OUTSIDE/runs", "json": {"name": "e2e-{{ step.key }}"}}, "outputs": {"run": "response.json.run"},
	"poll": {"url": "OUTSIDE/runs/{{ outputs.run }}", "successCondition": "response.json.state == \"passed\""},
	"cancel": {"url": "OUTSIDE/runs/cancel"}`

const findsARun = startsARun + `, "find": {"url": "OUTSIDE/runs?name=e2e-{{ step.key }}", "found": "size(response.json.runs) > 0", "outputs": {"run": "response.json.runs[0]"}}`

// The plugin or the controller is killed after the request and before the status is
// stored, or the answer of the outside system is lost.
func TestTheWorkIsStartedOnce(t *testing.T) {
	crashes := map[string]func(*host, *runs){
		"no crash": func(*host, *runs) {},
		"killed before the first status": func(h *host, _ *runs) {
			h.runUnstored()
			h.restart()
		},
		"killed again and again": func(h *host, _ *runs) {
			for range 4 {
				h.runUnstored()
				h.restart()
			}
		},
		"the answer is lost": func(h *host, r *runs) {
			r.loseNext()
			h.run()
			h.require(types.PhaseRunning, "starting failed, retrying: POST ")
		},
		"the answer is lost, then killed": func(h *host, r *runs) {
			r.loseNext()
			h.run()
			h.runUnstored()
			h.restart()
		},
		"killed after a status": func(h *host, _ *runs) {
			h.run()
			h.restart()
		},
	}
	for name, crash := range crashes {
		for kind, test := range map[string]struct {
			honours bool
			config  string
		}{
			"an API that honours the key": {true, strings.Replace(startsARun, `"request": {`, `"request": {"idempotent": true, `, 1)}, "find": {false, findsARun},
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				r := &runs{honours: test.honours, byKey: map[string]int{}}
				o := newOutside(t, r.ServeHTTP)
				h := newHost(t, o, "{"+test.config+"}")
				crash(h, r)
				h.until(10)
				h.require(types.PhaseSuccessful)
				if len(r.started()) != 1 || o.count("GET", "/runs/0") == 0 {
					t.Errorf("%d runs were started, want 1, which is polled: %v", len(r.started()), o.all())
				}
			})
		}
	}
}

// If the outside system does not honour the key and the step has no find, onUnknown
// decides.
func TestNeitherKeyNorFind(t *testing.T) {
	outside := func() (*runs, http.HandlerFunc) {
		r := &runs{byKey: map[string]int{}}
		return r, r.ServeHTTP
	}
	t.Run("Repeat", func(t *testing.T) {
		r, handle := outside()
		h := newHost(t, newOutside(t, handle), "{"+startsARun+"}")
		h.runUnstored()
		h.restart()
		h.until(10)
		h.require(types.PhaseSuccessful)
		if len(r.started()) != 2 || r.started()[0] != r.started()[1] {
			t.Errorf("got runs %q, want two under one key", r.started())
		}
	})
	t.Run("Fail, and a request that may be repeated", func(t *testing.T) {
		for _, request := range []string{`"method": "PUT"`, `"method": "DELETE"`, `"idempotent": true`} {
			o := newOutside(t, status(504))
			h := newHost(t, o, `{"onUnknown": "Fail", "request": {`+request+`, "url": "OUTSIDE"}}`)
			h.until(10)
			if h.require(types.PhaseFailed, "onUnknown: Fail"); len(o.all()) != 1 {
				t.Errorf("%s: got %v, want one request", request, o.all())
			}
		}
	})
	t.Run("Fail", func(t *testing.T) {
		r, handle := outside()
		o := newOutside(t, handle)
		h := newHost(t, o, `{"onUnknown": "Fail", `+startsARun+"}")
		h.runUnstored() // announces the start
		h.restart()
		if h.run(); len(r.started()) != 0 {
			t.Fatal("the work was started before the status said so")
		}
		h.runUnstored()
		if len(r.started()) != 1 {
			t.Fatalf("got runs %q", r.started())
		}
		h.restart()
		h.until(10)
		h.require(types.PhaseFailed, "onUnknown: Fail", "the work was cancelled")
		if len(r.started()) != 1 || o.count("POST", "/runs/cancel") != 1 {
			t.Errorf("got runs %q, and %v", r.started(), o.all())
		}
	})
}

// A retry after an abort has another key, so that it does not take an earlier run for its
// own.
func TestAnotherAttemptStartsAnotherRun(t *testing.T) {
	r := &runs{honours: true, byKey: map[string]int{}}
	h := newHost(t, newOutside(t, r.ServeHTTP), "{"+findsARun+"}")
	h.until(10)
	h.require(types.PhaseSuccessful)
	h.status = nil
	h.ro.Annotations["rollout.argoproj.io/revision"] = "8"
	h.restart()
	h.until(10)
	h.require(types.PhaseSuccessful)
	if len(r.started()) != 2 || r.started()[0] == r.started()[1] {
		t.Errorf("got runs %q, want two", r.started())
	}
}

// At an abort it is not known whether the work was started: find tells.
func TestAbortOfWhatFindKnows(t *testing.T) {
	for _, started := range []bool{true, false} {
		r := &runs{byKey: map[string]int{}}
		o := newOutside(t, r.ServeHTTP)
		config := strings.NewReplacer(`OUTSIDE/runs/cancel`, `OUTSIDE/runs/{{ outputs.run }}/cancel`, `"successCondition"`, `"outputs": {"state": "response.json.state"}, "successCondition"`).Replace(findsARun)
		h := newHost(t, o, "{"+config+"}")
		r.loseNext()
		h.run()
		if !started {
			r.forget()
		}
		result, _ := h.plugin.Abort(h.ro, h.call())
		if result.Phase != types.PhaseSuccessful {
			t.Errorf("got %s %q", result.Phase, result.Message)
		}
		if want := map[bool]string{true: "the work was cancelled", false: "there is nothing to cancel"}[started]; !strings.HasSuffix(result.Message, want) {
			t.Errorf("started %v: got %q", started, result.Message)
		}
		if n := o.count("POST", "/runs/0/cancel"); n != map[bool]int{true: 1}[started] {
			t.Errorf("started %v: %d cancels", started, n)
		}
	}
}

// Work that find has found is cancelled, also if its outputs cannot be read.
func TestFoundWorkWithoutOutputsIsCancelled(t *testing.T) {
	for _, aborts := range []bool{false, true} {
		o := newOutside(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				answer200(`{}`)(w, r)
			} else if r.URL.Path == "/runs" {
				w.WriteHeader(http.StatusBadGateway)
			}
		})
		h := newHost(t, o, `{"request": {"url": "OUTSIDE/runs"}, "find": {"url": "OUTSIDE/{{ step.key }}", "found": "OPEN", "outputs": {"id": "response.json.id"}}, "cancel": {"url": "OUTSIDE/cancel/{{ step.key }}"}}`)
		config := h.config
		if aborts {
			h.config = strings.Replace(config, "OPEN", "false", 1) // it is not listed yet
			h.run()
		}
		if h.config = strings.Replace(config, "OPEN", "true", 1); aborts {
			_, _ = h.plugin.Abort(h.ro, h.call())
		} else {
			h.until(5)
			h.require(types.PhaseFailed, "find.outputs.id", "the work was cancelled")
		}
		if !slices.ContainsFunc(o.all(), func(r received) bool { return strings.HasPrefix(r.path, "/cancel/") }) {
			t.Errorf("aborted %t: no cancel in %v: %s", aborts, o.all(), h.last.Message)
		}
	}
}

func TestFind(t *testing.T) {
	for name, test := range map[string]struct {
		handle http.HandlerFunc
		phase  types.StepPhase
		words  string
		posts  int
	}{
		"404 is nothing":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, types.PhaseSuccessful, "POST", 1},
		"200 is something":   {answer200(`{"id": "a"}`), types.PhaseSuccessful, "found what an earlier request has started", 0},
		"403 fails":          {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) }, types.PhaseFailed, "answered 403", 0},
		"503 is tried again": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, types.PhaseRunning, "answered 503", 0},
		"no answer":          {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, types.PhaseRunning, "EOF", 0},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOutside(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					test.handle(w, r)
				}
			})
			h := newHost(t, o, `{"request": {"url": "OUTSIDE"}, "find": {"url": "OUTSIDE/{{ step.key }}", "outputs": {"id": "response.json.id"}}}`)
			h.run()
			h.require(test.phase, test.words)
			if n := o.count("POST", "/"); n != test.posts {
				t.Errorf("%d requests, want %d", n, test.posts)
			}
			if test.phase != types.PhaseRunning {
				return
			}
			if result, _ := h.plugin.Abort(h.ro, h.call()); result.Message != "there is nothing to clean up" {
				t.Errorf("a look that changes nothing counts as a start: %s", result.Message)
			}
		})
	}
}

// Another release holds the lock: it is not released by a step that did not get it.
func TestARefusedRequestIsNotCancelled(t *testing.T) {
	o := newOutside(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			http.Error(w, "held by another release", http.StatusConflict)
		}
	})
	h := newHost(t, o, `{"request": {"method": "PUT", "url": "OUTSIDE/locks/prod"}, "cancel": {"method": "DELETE", "url": "OUTSIDE/locks/prod"}}`)
	h.run()
	h.require(types.PhaseFailed, "answered 409 Conflict: held by another release")
	for _, call := range []func() types.RpcStepResult{
		func() types.RpcStepResult { r, _ := h.plugin.Abort(h.ro, h.call()); return r },
		func() types.RpcStepResult { r, _ := h.plugin.Terminate(h.ro, h.call()); return r },
	} {
		if r := call(); r.Message != "there is nothing to clean up" {
			t.Errorf("got %+v", r)
		}
	}
	if n := o.count("DELETE", "/"); n != 0 {
		t.Errorf("%d cancels of what was refused", n)
	}
}

// A request that works, and answers too late or with 5xx, is made three times at most.
func TestASlowAPIGetsTheEffectThreeTimesAtMost(t *testing.T) {
	for name, handle := range map[string]http.HandlerFunc{"too late": badly["slow, after the work"].handle, "504": status(504)} {
		for key, most := range map[string]int{"": 3, `"idempotent": true,`: 1000} {
			t.Run(name+key, func(t *testing.T) {
				t.Parallel()
				o := newOutside(t, func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/runs" {
						handle(w, r)
					}
				})
				h := newHost(t, o, `{"timeout": "3s", "request": {`+key+`"timeout": "50ms", "url": "OUTSIDE/runs"}, "cancel": {"url": "OUTSIDE/cancel"}}`)
				eventually(t, "the step fails", func() bool { return h.run().Phase != types.PhaseRunning })
				n := o.count("POST", "/runs")
				if h.last.Phase != types.PhaseFailed || n > most || most > 3 && n <= 3 || o.count("POST", "/cancel") != 1 {
					t.Errorf("%d requests, want %d at most, and %d cancels, want 1: %s", n, most, o.count("POST", "/cancel"), h.last.Message)
				}
			})
		}
	}
}
