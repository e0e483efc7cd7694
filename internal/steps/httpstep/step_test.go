package httpstep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

func TestARequest(t *testing.T) {
	o := newOutside(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Add("X-Run-Id", "a")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"id": 9007199254740993, "part": 0.5, "ok": true, "name": "e2e"}`)
	})
	h := newHost(t, o, `{
		"id": "e2e",
		"request": {
			"method": "PUT", "url": "OUTSIDE/runs/{{ rollout.name }}?key={{ step.key }}",
			"headers": {"X-Image": "{{ images.new.app }}", "accept": "application/json"},
			"json": {"team": "{{ rollout.labels.team }}", "revision": 3, "list": ["{{ revision }}"]}
		},
		"outputs": {"id": "response.json.id", "part": "response.json.part", "ok": "response.json.ok", "header": "response.headers[\"x-run-id\"]", "status": "response.status", "text": "response.text", "mine": "rollout.name"}
	}`)
	h.run()
	h.require(types.PhaseSuccessful, "PUT "+o.URL+" answered 201 Created")
	want := map[string]string{"id": "9007199254740993", "part": "0.5", "ok": "true", "header": "a", "status": "201", "mine": "app", "text": `{"id": 9007199254740993, "part": 0.5, "ok": true, "name": "e2e"}`}
	if diff := cmp.Diff(want, h.outputs()); diff != "" {
		t.Error(diff)
	}
	requests := o.all()
	if len(requests) != 1 {
		t.Fatalf("%d requests", len(requests))
	}
	r := requests[0]
	key := r.header.Get("Idempotency-Key")
	if r.method != "PUT" || len(key) != 32 || r.path != "/runs/app?key="+key {
		t.Errorf("got %s %s", r.method, r.path)
	}
	for name, want := range map[string]string{"X-Image": "registry.example/app:v2", "Accept": "application/json", "User-Agent": "rollouts-plugin-step/v1.2.3", "Content-Type": "application/json"} {
		if got := r.header.Get(name); got != want {
			t.Errorf("header %s: got %q, want %q", name, got, want)
		}
	}
	var body map[string]any
	if err := json.Unmarshal([]byte(r.body), &body); err != nil {
		t.Fatalf("%q: %v", r.body, err)
	}
	if diff := cmp.Diff(map[string]any{"team": `a "b" \c`, "revision": 3.0, "list": []any{7.0}}, body); diff != "" {
		t.Error(diff)
	}
}

func TestRequestsAsTheyAreConfigured(t *testing.T) {
	for name, test := range map[string]struct {
		config string
		want   func(received) bool
	}{
		"a text": {`{"text": "a {{ rollout.name }}\n"}`, func(r received) bool {
			return r.method == "POST" && r.body == "a app\n" && r.header.Get("Content-Type") == "text/plain; charset=utf-8"
		}},
		"another type": {`{"text": "<a/>", "headers": {"content-type": "text/xml"}}`, func(r received) bool { return r.header.Get("Content-Type") == "text/xml" }},
		"no body": {`{}`, func(r received) bool {
			return r.method == "POST" && r.body == "" && r.header.Get("Content-Type") == "" && r.header.Get("Idempotency-Key") != ""
		}},
		"a read": {`{"method": "GET"}`, func(r received) bool { return r.method == "GET" && r.header.Get("Idempotency-Key") == "" }},
		"a key of the user's": {`{"headers": {"idempotency-key": "mine"}}`, func(r received) bool {
			return len(r.header.Values("Idempotency-Key")) == 1 && r.header.Get("Idempotency-Key") == "mine"
		}},
		"an agent of the user's": {`{"headers": {"User-Agent": "mine"}}`, func(r received) bool { return r.header.Get("User-Agent") == "mine" }},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOutside(t, answer200(""))
			h := newHost(t, o, `{"request": `+strings.Replace(test.config, "{", `{"url": "OUTSIDE"`+map[bool]string{true: "", false: ", "}[test.config == "{}"], 1)+`}`)
			h.run()
			h.require(types.PhaseSuccessful)
			if r := o.all()[0]; !test.want(r) {
				t.Errorf("got %+v", r)
			}
		})
	}
}

// A run that ends at the third poll.
func TestPollsUntilTheWorkEnds(t *testing.T) {
	for _, end := range []string{"passed", "failed", "both"} {
		t.Run(end, func(t *testing.T) {
			var polls atomic.Int32
			o := newOutside(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					w.WriteHeader(http.StatusAccepted)
					fmt.Fprint(w, `{"run": 42}`)
					return
				}
				if polls.Add(1) < 3 {
					fmt.Fprint(w, `{"state": "running"}`)
					return
				}
				fmt.Fprintf(w, `{"state": %q, "report": "https://ci.example.com/report"}`, end)
			})
			h := newHost(t, o, `{
				"interval": "20s", "request": {"url": "OUTSIDE/runs"}, "outputs": {"run": "response.json.run"},
				"poll": {
					"url": "OUTSIDE/runs/{{ outputs.run }}", "outputs": {"report": "response.json.report"},
					"successCondition": "response.json.state in [\"passed\", \"both\"]", "failureCondition": "response.json.state in [\"failed\", \"both\"]"
				},
				"cancel": {"url": "OUTSIDE/cancel"}
			}`)
			h.run()
			h.require(types.PhaseRunning, "POST "+o.URL+" answered 202 Accepted")
			h.run()
			h.require(types.PhaseRunning, "waiting for GET "+o.URL)
			if h.last.RequeueAfter.Seconds() != 20 {
				t.Errorf("asked to come back in %s, want interval", h.last.RequeueAfter)
			}
			h.until(5)
			if end == "passed" {
				h.require(types.PhaseSuccessful, "poll.successCondition is true")
			} else {
				h.require(types.PhaseFailed, "poll.failureCondition is true: response.json.state in [")
			}
			if diff := cmp.Diff(map[string]string{"run": "42", "report": "https://ci.example.com/report"}, h.outputs()); diff != "" {
				t.Error(diff)
			}
			if o.count("POST", "/runs") != 1 || o.count("GET", "/runs/42") != 3 || o.count("POST", "/cancel") != 0 {
				t.Errorf("got %v", o.all())
			}
		})
	}
}

func TestAGate(t *testing.T) {
	for name, test := range map[string]struct {
		poll  string
		still int
	}{
		"conditions":          {`"successCondition": "response.status == 200", "accept": [404]`, 404},
		"no conditions":       {`"accept": [404]`, 404},
		"a condition on 200s": {`"successCondition": "response.text == \"yes\""`, 200},
	} {
		t.Run(name, func(t *testing.T) {
			var approved atomic.Bool
			o := newOutside(t, func(w http.ResponseWriter, _ *http.Request) {
				if !approved.Load() {
					w.WriteHeader(test.still)
					return
				}
				fmt.Fprint(w, "yes")
			})
			h := newHost(t, o, `{"onUnknown": "Fail", "poll": {"url": "OUTSIDE/approved", `+test.poll+`}, "message": "approve {{ rollout.name }} at https://approve.example.com"}`)
			for range 3 {
				h.run()
				h.require(types.PhaseRunning, "approve app at https://approve.example.com")
			}
			if n := strings.Count(h.events.text(), "approve app at"); n != 1 {
				t.Errorf("%d Events of the wait, want 1: %s", n, h.events.text())
			}
			approved.Store(true)
			h.run()
			h.require(types.PhaseSuccessful)
			if n := len(o.all()); n != 4 || o.all()[0].header.Get("Idempotency-Key") != "" {
				t.Errorf("%d requests, want 4 that change nothing", n)
			}
		})
	}
}

// The answer lacks the value that an expression asks for.
func TestConditionsAndOutputsWithoutAValue(t *testing.T) {
	o := newOutside(t, answer200(`{"state": 7}`))
	h := newHost(t, o, `{"poll": {"url": "OUTSIDE", "successCondition": "response.json.state"}}`)
	h.run()
	h.require(types.PhaseRunning, "poll.successCondition: response.json.state: want true or false")
	h = newHost(t, o, `{"request": {"url": "OUTSIDE"}, "outputs": {"id": "response.json.id"}, "cancel": {"url": "OUTSIDE/cancel/{{ step.key }}"}}`)
	h.until(3)
	h.require(types.PhaseFailed, "outputs.id", "the work was cancelled")
	if o.count("POST", "/cancel/") != 1 {
		t.Error("what was started was not cancelled")
	}
	h = newHost(t, o, `{"poll": {"url": "OUTSIDE", "outputs": {"id": "response.json.id"}}}`)
	h.run()
	h.require(types.PhaseFailed, "poll.outputs.id")
	o = newOutside(t, answer200("no JSON"))
	h = newHost(t, o, `{"request": {"url": "OUTSIDE"}, "outputs": {"kind": "response.json == null ? \"none\" : \"some\""}}`)
	h.run()
	if h.require(types.PhaseSuccessful); h.outputs()["kind"] != "none" {
		t.Errorf("got %v", h.outputs())
	}
}

func TestTextsThatCannotBeRendered(t *testing.T) {
	o := newOutside(t, answer200(""))
	for name, test := range map[string]struct{ request, words string }{
		"url":                {`{"url": "OUTSIDE/{{ rollout.nam }}"}`, "request.url: "},
		"json":               {`{"url": "OUTSIDE", "json": {"a": ["{{ steps.other.outputs.id }}"]}}`, "request.json: "},
		"text":               {`{"url": "OUTSIDE", "text": "{{ images.new.other }}"}`, "request.text: "},
		"header":             {`{"url": "OUTSIDE", "headers": {"X-A": "{{ steps.other.outputs.a }}"}}`, "request.headers.X-A: "},
		"a line in a header": {`{"url": "OUTSIDE", "headers": {"X-A": "{{ rollout.annotations.lines }}"}}`, "request.headers.X-A: "},
		"a line in the URL":  {`{"url": "OUTSIDE/{{ raw(rollout.annotations.lines) }}"}`, "request.url: "},
		"another host":       {`{"url": "{{ rollout.annotations.url }}"}`, `host "evil.example" is not allowed`},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, o, `{"request": `+test.request+`, "cancel": {"url": "OUTSIDE"}}`)
			h.ro.Annotations["lines"], h.ro.Annotations["url"] = "a\r\nX-Injected: b", "https://evil.example/"
			h.run()
			h.require(types.PhaseFailed, test.words)
		})
	}
	for _, r := range o.all() {
		// The answer to an earlier Run may have been lost: what it started is cancelled.
		if !strings.HasSuffix(r.header.Get("Idempotency-Key"), "-cancel") {
			t.Errorf("a request came through: %+v", r)
		}
	}
}

func TestImagesOfTheStableVersion(t *testing.T) {
	o := newOutside(t, answer200(""))
	h := newHost(t, o, `{"request": {"url": "OUTSIDE/{{ images.old.app }}"}}`)
	h.ro.Status.StableRS = "old"
	h.run()
	h.require(types.PhaseRunning, "ReplicaSet demo/app-old cannot be read")
	yes := true
	h.api.PutObject("replicasets", appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "app-old", OwnerReferences: []metav1.OwnerReference{{UID: "u-1", Controller: &yes}}},
		Spec:       appsv1.ReplicaSetSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "v1"}}}}},
	})
	h.run()
	h.require(types.PhaseSuccessful)
	if o.count("POST", "/v1") != 1 {
		t.Errorf("got %v", o.all())
	}
}

func TestCancelAndOnAbort(t *testing.T) {
	for name, test := range map[string]struct {
		statuses []int
		want     bool
	}{
		"done": {[]int{200}, true}, "gone": {[]int{410}, true}, "not there": {[]int{404}, true}, "ended": {[]int{409}, true},
		"refused": {[]int{403}, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOutside(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case strings.HasPrefix(r.URL.Path, "/runs"):
					fmt.Fprint(w, `{"id": "a"}`)
				default:
					w.WriteHeader(test.statuses[0])
				}
			})
			config := `{
				"request": {"url": "OUTSIDE/runs"}, "outputs": {"id": "response.json.id"}, POLL
				"cancel": {"url": "OUTSIDE/cancel/{{ outputs.id }}"}, "onAbort": {"method": "DELETE", "url": "OUTSIDE/undo/{{ outputs.id }}"}
			}`
			running := newHost(t, o, strings.Replace(config, "POLL", `"poll": {"url": "OUTSIDE/runs/a", "successCondition": "false"},`, 1))
			running.run()
			running.require(types.PhaseRunning)
			done := newHost(t, o, strings.Replace(config, "POLL", "", 1))
			done.run()
			done.require(types.PhaseSuccessful)
			for method, h := range map[string]*host{"POST": running, "DELETE": done} {
				result, _ := h.plugin.Abort(h.ro, h.call())
				if got := result.Phase == types.PhaseSuccessful; got != test.want {
					t.Errorf("%s: got %s %q", method, result.Phase, result.Message)
				}
			}
			key := first(o, "POST", "/runs").header.Get("Idempotency-Key")
			if r := first(o, "POST", "/cancel/a"); r == nil || r.header.Get("Idempotency-Key") != key+"-cancel" {
				t.Errorf("cancel: got %+v", r)
			}
			if r := first(o, "DELETE", "/undo/a"); r == nil || r.header.Get("Idempotency-Key") != key+"-undo" {
				t.Errorf("onAbort: got %+v", r)
			}
		})
	}
}

// first returns the first request with a method and a path prefix, or nil.
func first(o *outside, method, path string) *received {
	for _, r := range o.all() {
		if r.method == method && strings.HasPrefix(r.path, path) {
			return &r
		}
	}
	return nil
}

func TestAStepWithNothingThatCancelsIt(t *testing.T) {
	o := newOutside(t, answer200("{}"))
	h := newHost(t, o, `{"request": {"url": "OUTSIDE"}, "poll": {"url": "OUTSIDE", "successCondition": "false"}}`)
	h.run()
	before := o.count("POST", "/")
	result, _ := h.plugin.Abort(h.ro, h.call())
	if result.Phase != types.PhaseSuccessful || !strings.Contains(result.Message, "the work is left as it is") || o.count("POST", "/") != before {
		t.Errorf("got %s %q", result.Phase, result.Message)
	}
	step, err := h.kind.Parse(steps.Source{Config: json.RawMessage(h.config)})
	if err != nil {
		t.Fatal(err)
	}
	if err := step.Undo(context.Background(), steps.Work{Rollout: h.ro}); !errors.Is(err, steps.ErrNoCleanup) {
		t.Errorf("Undo: got %v", err)
	}
	if left := step.Left(steps.Work{Key: "k", Outputs: map[string]string{"id": "7"}}); left != "what its POST with Idempotency-Key k has started (outputs map[id:7])" {
		t.Errorf("got %q", left)
	}
}

// A forbidden host in a later request is an error before there is anything to cancel.
func TestHostsAreCheckedAtTheStart(t *testing.T) {
	o := newOutside(t, answer200(""))
	for _, later := range []string{
		`"cancel": {"url": "https://evil.example/runs/{{ step.key }}"}`, `"onAbort": {"url": "https://evil.example?{{ step.key }}"}`, `"poll": {"url": "https://evil.example"}`,
		`"find": {"url": "https://evil.example:443/{{ step.key }}"}`, `"cancel": {"url": "OUTSIDE", "auth": {"oauth2": {"tokenURL": "https://evil.example/{{ rollout.name }}", "clientID": "a", "clientSecret": ` + tokenRef + `}}}`,
	} {
		h := newHost(t, o, `{"request": {"url": "OUTSIDE"}, `+later+`}`)
		h.run()
		h.require(types.PhaseFailed, `host "evil.example" is not allowed`)
	}
	if n := len(o.all()); n != 0 {
		t.Errorf("%d requests came through", n)
	}
	h := newHost(t, o, `{"poll": {"url": "http://{{ raw(rollout.annotations.host) }}/x"}, "cancel": {"url": "{{ rollout.annotations.host }}"}}`)
	h.ro.Annotations["host"] = strings.TrimPrefix(o.URL, "http://")
	h.run()
	h.require(types.PhaseSuccessful)
}

// All texts and expressions of one operation share one budget.
func TestManyTextsAndExpressions(t *testing.T) {
	const heavy = `[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all(c, [0,1,2,3,4,5,6,7,8,9].all(d, a + b + c + d >= 0))))`
	many := func(key, before, after string, n int) string {
		var pairs []string
		for i := range n {
			pairs = append(pairs, fmt.Sprintf(`"%s%d": "%s"`, key, i, before+heavy+after))
		}
		return "{" + strings.Join(pairs, ",") + "}"
	}
	for name, test := range map[string]struct {
		config string
		phase  types.StepPhase
	}{
		"one":     {`{"poll": {"url": "OUTSIDE", "outputs": ` + many("a", "", "", 1) + `}}`, types.PhaseSuccessful},
		"headers": {`{"poll": {"url": "OUTSIDE", "headers": ` + many("X-", "{{", "}}", 16) + `}}`, types.PhaseFailed},
		"outputs": {`{"poll": {"url": "OUTSIDE", "outputs": ` + many("a", "", "", maxOutputs) + `}}`, types.PhaseFailed},
		"both":    {`{"poll": {"url": "OUTSIDE", "headers": ` + many("X-", "{{", "}}", 8) + `, "outputs": ` + many("a", "", "", 8) + `}}`, types.PhaseFailed},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, newOutside(t, answer200("")), test.config)
			eventually(t, "the step ends", func() bool { return h.run().Phase != types.PhaseRunning })
			h.require(test.phase)
			if test.phase == types.PhaseFailed {
				h.require(test.phase, "of the step take more work together than is allowed")
			}
		})
	}
}
