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

// outside is a system that steps start runs in, over HTTP:
//
//	POST   /runs        starts one, answers 201 with its id and status
//	GET    /runs/ID     its id and status: running, passed or failed
//	GET    /runs?key=K  the runs that were started under a key
//	DELETE /runs/ID     cancels one
//	POST   /runs/ID/undo
type outside struct {
	URL string
	// honoursKey makes it start only one run for each Idempotency-Key.
	honoursKey bool
	// failPolls makes it answer 503 to GET /runs/ID.
	failPolls bool

	mu   sync.Mutex
	runs []*outsideRun
	// again counts how often a request was to start, or to find, a run that had been
	// started already.
	again int
	said  []string
}

type outsideRun struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	URL    string `json:"url"`
	// Key is the Idempotency-Key, and Body what the run was started with.
	Key  string         `json:"key"`
	Body map[string]any `json:"-"`
}

// newOutside serves an outside until the test ends.
func newOutside(t *testing.T) *outside {
	o := &outside{honoursKey: true}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /runs", o.start)
	mux.HandleFunc("GET /runs", o.find)
	mux.HandleFunc("GET /runs/{id}", o.withRun(func(*outsideRun) {}))
	mux.HandleFunc("DELETE /runs/{id}", o.withRun(func(r *outsideRun) { r.Status = "cancelled" }))
	mux.HandleFunc("POST /runs/{id}/undo", o.withRun(func(r *outsideRun) { r.Status = "undone" }))
	o.URL = e2etest.Serve(t, mux)
	e2etest.KeepOnFailure(t, "outside.log", func() (string, error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		return strings.Join(o.said, "\n"), nil
	})
	return o
}

func (o *outside) note(r *http.Request) {
	o.said = append(o.said, fmt.Sprintf("%s %s (key %s)", r.Method, r.URL, r.Header.Get("Idempotency-Key")))
}

func (o *outside) start(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.note(r)
	run := &outsideRun{ID: fmt.Sprint(len(o.runs) + 1), Status: "running", Key: r.Header.Get("Idempotency-Key")}
	run.URL = o.URL + "/runs/" + run.ID
	if err := json.NewDecoder(r.Body).Decode(&run.Body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	i := slices.IndexFunc(o.runs, func(other *outsideRun) bool { return other.Key == run.Key })
	if i >= 0 {
		o.again++
	}
	if i >= 0 && o.honoursKey {
		run = o.runs[i]
	} else {
		o.runs = append(o.runs, run)
	}
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(run)
}

func (o *outside) find(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.note(r)
	found := []*outsideRun{}
	for _, run := range o.runs {
		if run.Key == r.URL.Query().Get("key") {
			found = append(found, run)
			o.again++
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"runs": found})
}

func (o *outside) withRun(do func(*outsideRun)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.note(r)
		if o.failPolls && r.Method == http.MethodGet {
			http.Error(w, "out of order", http.StatusServiceUnavailable)
			return
		}
		i := slices.IndexFunc(o.runs, func(run *outsideRun) bool { return run.ID == r.PathValue("id") })
		if i < 0 {
			http.NotFound(w, r)
			return
		}
		do(o.runs[i])
		_ = json.NewEncoder(w).Encode(o.runs[i])
	}
}

// all returns the runs so far.
func (o *outside) all() []outsideRun {
	o.mu.Lock()
	defer o.mu.Unlock()
	var all []outsideRun
	for _, run := range o.runs {
		all = append(all, *run)
	}
	return all
}

// requests returns how many requests there were so far.
func (o *outside) requests() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.said)
}

// foundAgain returns how often a request was to start, or to find, a run that had been
// started already.
func (o *outside) foundAgain() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.again
}

// perKey returns how many runs were started under each key.
func (o *outside) perKey() map[string]int {
	perKey := map[string]int{}
	for _, run := range o.all() {
		perKey[run.Key]++
	}
	return perKey
}

// end ends the last run.
func (o *outside) end(status string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.runs[len(o.runs)-1].Status = status
}

// await waits until there are n runs of which the last has a status.
func (o *outside) await(t *testing.T, n int, status string) {
	t.Helper()
	e2etest.Eventually(t, e2etest.Patience, fmt.Sprintf("%d runs outside, the last one %s", n, status), func(context.Context) error {
		all := o.all()
		if len(all) != n {
			return fmt.Errorf("there are %d", len(all))
		}
		if last := all[n-1].Status; last != status {
			return errors.New("it is " + last)
		}
		return nil
	})
}

// step returns a step of kind http that starts a run outside and waits for its end. more are
// keys beside http, under keys in it.
func (o *outside) step(id, more string, under ...string) string {
	return fmt.Sprintf(`
- plugin:
    name: kedify/step
    config:
      id: %s
      interval: 11s
%s
      http:
        server: {url: "%s"}
        request:
          url: /runs
          json:
            image: '{{ images.new[rollout.name] }}'
            team: '{{ rollout.labels.team }}'
        outputs:
          id: response.json.id
          url: response.json.url
        poll:
          url: /runs/{{ outputs.id }}
          successCondition: response.json.status == "passed"
          failureCondition: response.json.status in ["failed", "cancelled"]
        cancel:
          method: DELETE
          url: '{{ outputs.url }}'
        onAbort:
          url: '{{ outputs.url }}/undo'
%s`, id, e2etest.Indent(6, more), o.URL, e2etest.Indent(8, strings.Join(under, "\n")))
}
