package httpstep

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/utils/plugin/types"
)

// tells are the settings of a step that only tells somebody something.
const tells = `"timeout": "1m", "failurePolicy": "Ignore"`

// longest is how long such a step holds a canary: its timeout, and one more wait for an answer
// (20 s), or what is left until the call that notices, which comes 16 s after the one before.
const longest = time.Minute + 20*time.Second

// pass makes a step's status one of some time ago, as if that had passed.
func (h *host) pass(d time.Duration) {
	h.t.Helper()
	var s map[string]any
	if err := json.Unmarshal(h.status, &s); err != nil {
		h.t.Fatal(err)
	}
	called, err := time.Parse(time.RFC3339, s["called"].(string))
	if err != nil {
		h.t.Fatal(err)
	}
	s["called"] = called.Add(-d)
	if h.status, err = json.Marshal(s); err != nil {
		h.t.Fatal(err)
	}
}

// wait runs the step as often as it asks for, until it has ended. It returns how long the
// canary was held, of which the times between the calls are not waited for.
func (h *host) wait() (held time.Duration) {
	h.t.Helper()
	for held < time.Hour {
		begun := time.Now()
		h.run()
		if took := time.Since(begun); took > 5*time.Second {
			h.t.Errorf("a call took %s, for which it holds one of the controller's workers", took)
		}
		if h.last.Phase != types.PhaseRunning {
			return held
		}
		after := h.last.RequeueAfter + 5*time.Second // as Argo Rollouts does
		h.pass(after)
		held += after
	}
	h.t.Fatalf("the canary is held for more than an hour: %s", h.last.Message)
	return held
}

// outages are what may be wrong with a chat, a ticket system or a dashboard.
var outages = map[string]struct {
	// handle is the API's; nil if nobody listens.
	handle http.HandlerFunc
	// request is the step's, of which the default posts to OUTSIDE.
	request string
	// atOnce is true for what cannot become better.
	atOnce bool
	// said is in the step's last message.
	said string
}{
	"nobody listens": {nil, "", false, "timed out after 1m0s: starting failed: "},
	"no answer":      {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "", false, "timed out after 1m0s: "},
	"an answer that never ends": {func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}, "", false, "timed out after 1m0s: "},
	"a connection that is cut":   {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "", false, "may be left"},
	"500":                        {status(500), "", false, "500 Internal Server Error"},
	"503 for an hour":            {status(503, "Retry-After", "3600"), "", false, "503 Service Unavailable"},
	"429 for an hour":            {status(429, "Retry-After", "3600"), "", false, "429 Too Many Requests"},
	"a host without an address":  {nil, `{"url": "http://chat.invalid/"}`, false, "timed out after 1m0s: "},
	"TLS where there is none":    {status(200), `{"url": "TLS"}`, false, "timed out after 1m0s: "},
	"401":                        {status(401), "", true, "401 Unauthorized"},
	"404":                        {status(404), "", true, "404 Not Found"},
	"an answer that says no":     {answer200(`{"ok": false, "error": "is_archived"}`), `{"url": "OUTSIDE", "successCondition": "response.json.ok"}`, true, "is_archived"},
	"a page in place of answers": {answer200(`<html>`), `{"url": "OUTSIDE", "successCondition": "response.json.ok"}`, true, "request.successCondition: "},
	"a Secret that is missing":   {status(200), `{"url": ` + ref("chat", "url") + `}`, false, "Secret demo/chat does not exist"},
	"a Secret's key, in json":    {status(200), `{"url": "OUTSIDE", "json": {"key": ` + ref("half", "key") + `}}`, false, `Secret demo/half has no key "key"`},
	"a host that is not allowed, in a Secret": {status(200), `{"url": ` + ref("elsewhere", "url") + `}`, true, "evil.example"},
	"a host that is not allowed, of a label":  {status(200), `{"url": "{{ rollout.labels.url }}"}`, true, "evil.example"},
	"a redirect to such a host":               {status(307, "Location", "http://evil.example/"), "", true, "evil.example"},
	"a label that is missing":                 {status(200), `{"url": "OUTSIDE/{{ rollout.labels.nothing }}"}`, true, "request.url: "},
}

// A step that only tells neither aborts a canary nor holds it for longer than its timeout,
// whatever is wrong with whom it tells.
func TestAStepThatOnlyTellsGoesOn(t *testing.T) {
	for name, test := range outages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			handle := test.handle
			if handle == nil {
				handle = status(200)
			}
			o := newOutside(t, handle)
			request := test.request
			if request == "" {
				request = `{"url": "OUTSIDE"}`
			}
			request = strings.ReplaceAll(request, "TLS", strings.Replace(o.URL, "http:", "https:", 1))
			h := newHost(t, o, `{`+tells+`, "request": `+request+`}`)
			h.opts.AllowHosts = append(h.opts.AllowHosts, "chat.invalid")
			h.ro.Labels["url"] = "http://evil.example/"
			h.callWait = time.Second // some servers do not answer
			h.restart()
			h.putSecret("demo", "half", map[string]string{"other": "x"})
			h.putSecret("demo", "elsewhere", map[string]string{"url": "http://evil.example/hook"})
			if test.handle == nil {
				o.Close()
			}
			held := h.wait()
			h.require(types.PhaseSuccessful, "failed, and ignored: ", test.said)
			if held > longest || test.atOnce && held > 20*time.Second {
				t.Errorf("the canary was held for %s: %s", held, h.last.Message)
			}
			if !strings.Contains(h.events.text(), "StepFailureIgnored") {
				t.Errorf("no Event says so: %s", h.events.text())
			}
		})
	}
}

// What is wrong with a step's own configuration shows at once, whatever its failurePolicy: lint
// finds it before a canary does.
func TestAStepThatOnlyTellsAndItsMistakes(t *testing.T) {
	o := newOutside(t, status(200))
	for config, want := range map[string]string{
		`"request": {"url": "http://evil.example/"}`:                                   "request.url: ",
		`"request": {"url": "OUTSIDE"}, "onAbort": {"url": "http://evil.example/"}`:    "onAbort.url: ",
		`"request": {"url": "OUTSIDE", "jsn": {}}`:                                     `request.jsn: the key is not known: did you mean "json"?`,
		`"request": {"url": "OUTSIDE", "json": {"text": "{{ abort.reason }}"}}`:        "request.json: ",
		`"request": {"url": "OUTSIDE", "json": {"a": {"secretKeyRef": {"name":"x"}}}}`: "request.json.a.secretKeyRef: ",
	} {
		h := newHost(t, o, `{`+tells+`, `+config+`}`)
		if held := h.wait(); held > 0 {
			t.Errorf("%s: held for %s", config, held)
		}
		h.require(types.PhaseFailed, want)
	}
	if n := len(o.all()); n > 0 {
		t.Errorf("%d requests", n)
	}
}

// A canary whose end nobody can be told of is aborted as fast as any other, and an Event tells
// what stays.
func TestAnAbortOfAStepThatOnlyTells(t *testing.T) {
	for name, handle := range map[string]http.HandlerFunc{"nobody listens": nil, "no answer": outages["no answer"].handle, "500": status(500), "401": status(401)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOutside(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/undo" {
					handle(w, r)
				}
			})
			h := newHost(t, o, `{`+strings.Replace(tells, "1m", "2s", 1)+`, "request": {"url": "OUTSIDE/begin"}, "onAbort": {"url": "OUTSIDE/undo", "timeout": "1s"}}`)
			h.run()
			h.require(types.PhaseSuccessful)
			if handle == nil {
				o.Close()
			}
			begun := time.Now()
			_, _ = h.plugin.Abort(h.ro, h.call())
			if took := time.Since(begun); took > 3*time.Second {
				t.Errorf("the abort took %s", took)
			}
			eventually(t, "an Event tells what stays", func() bool { return strings.Contains(h.events.text(), "StepLeftBehind") })
		})
	}
}
