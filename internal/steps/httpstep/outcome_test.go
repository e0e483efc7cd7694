package httpstep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/hashicorp/go-hclog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// attempt is one attempt at a step, whose operations a test calls as the frame does.
type attempt struct {
	t    *testing.T
	api  *apiservertest.Server
	step steps.Step
	work steps.Work
}

// newAttempt returns an attempt at a step whose configuration has OUTSIDE for the server's
// address.
func newAttempt(t *testing.T, o *outside, config string) *attempt {
	t.Helper()
	a := &attempt{t: t, api: apiservertest.New(t)}
	kind := New(Options{Connect: a.api.Config, Logger: hclog.NewNullLogger(), AllowHosts: []string{"127.0.0.1", "localhost"}, AllowAddresses: loopback, SecretsNamespace: "secrets"})
	var err error
	if a.step, err = kind.Parse(steps.Source{Config: json.RawMessage(strings.ReplaceAll(config, "OUTSIDE", o.URL))}); err != nil {
		t.Fatal(err)
	}
	a.work = steps.Work{Key: "0123456789abcdef0123456789abcdef", ID: "e2e", Rollout: &v1alpha1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "app", Annotations: map[string]string{}}}}
	return a
}

// require checks what an operation has found.
func require(t *testing.T, p steps.Progress, err error, phase steps.Phase, words ...string) {
	t.Helper()
	said := p.Message
	if err != nil {
		said = err.Error()
	}
	if p.Phase != phase {
		t.Fatalf("got phase %q, want %q: %s", p.Phase, phase, said)
	}
	for _, part := range words {
		if !strings.Contains(said, part) {
			t.Errorf("got %q, want it with %q", said, part)
		}
	}
}

func (a *attempt) start(phase steps.Phase, words ...string) (steps.Progress, error) {
	a.t.Helper()
	p, err := a.step.Start(a.t.Context(), a.work)
	require(a.t, p, err, phase, words...)
	return p, err
}

func (a *attempt) poll(phase steps.Phase, words ...string) (steps.Progress, error) {
	a.t.Helper()
	p, err := a.step.Poll(a.t.Context(), a.work)
	require(a.t, p, err, phase, words...)
	return p, err
}

// badly are servers that behave badly, and what is known of a request that changes something.
var badly = map[string]struct {
	handle  http.HandlerFunc
	outcome steps.Outcome
	final   bool
	wait    time.Duration
}{
	"slow, after the work":         {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, steps.MayBeDone, false, 0},
	"cut off before the answer":    {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, steps.MayBeDone, false, 0},
	"200, cut off":                 {cutOff(200), steps.MayBeDone, false, 0},
	"500 after the work":           {status(500), steps.MayBeDone, false, 0},
	"502, cut off":                 {cutOff(502), steps.MayBeDone, false, 0},
	"503 with a time":              {status(503, "Retry-After", "60"), steps.MayBeDone, false, time.Minute},
	"599":                          {status(599), steps.MayBeDone, false, 0},
	"a redirect to nowhere":        {status(303), steps.MayBeDone, true, 0},
	"400":                          {status(400), steps.NotDone, true, 0},
	"403":                          {status(403), steps.NotDone, true, 0},
	"409":                          {status(409), steps.NotDone, true, 0},
	"409, cut off":                 {cutOff(409), steps.NotDone, true, 0},
	"408":                          {status(408), steps.NotDone, false, 0},
	"425":                          {status(425), steps.NotDone, false, 0},
	"429":                          {status(429, "Retry-After", "90"), steps.NotDone, false, 90 * time.Second},
	"429, cut off":                 {cutOff(429), steps.NotDone, false, 0},
	"403 with a time":              {status(403, "Retry-After", "120"), steps.NotDone, false, 2 * time.Minute},
	"403, no requests left":        {status(403, "x-ratelimit-remaining", "0"), steps.NotDone, false, 0},
	"403, none left for two hours": {status(403, "x-ratelimit-remaining", "0", "x-ratelimit-reset", fmt.Sprint(time.Now().Add(2*time.Hour).Unix())), steps.NotDone, false, time.Hour},
	"403, some requests left":      {status(403, "x-ratelimit-remaining", "7"), steps.NotDone, true, 0},
}

// status answers with a status and headers.
func status(status int, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
	}
}

// cutOff begins an answer, and ends the connection within its body.
func cutOff(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		w.WriteHeader(status)
		fmt.Fprint(w, "the beginning")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

// What a request has done follows from its answer: not a boolean more.
func TestOutcomes(t *testing.T) {
	for name, test := range badly {
		t.Run(name, func(t *testing.T) {
			o := newOutside(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/fine" {
					test.handle(w, r)
				}
			})
			outcomeOf := func(err error) (steps.Outcome, bool, time.Duration) {
				var e *steps.Error
				if !errors.As(err, &e) {
					t.Fatalf("got %v", err)
				}
				return e.Outcome, e.Final, e.RetryAfter
			}
			a := newAttempt(t, o, `{
				"request": {"url": "OUTSIDE", "timeout": "300ms"}, "poll": {"url": "OUTSIDE", "timeout": "300ms"},
				"cancel": {"url": "OUTSIDE", "timeout": "300ms"}, "onAbort": {"method": "DELETE", "url": "OUTSIDE", "timeout": "300ms"}
			}`)
			for what, operation := range map[string]func(context.Context, steps.Work) (steps.Progress, error){"Start": a.step.Start, "Poll": a.step.Poll} {
				p, err := operation(t.Context(), a.work)
				want := test.outcome
				if what == "Poll" {
					if want = steps.NotDone; test.final {
						want = steps.Done // the work is still there
					}
				}
				if (p.Phase == steps.Failed) != test.final {
					t.Fatalf("%s: got %+v, %v", what, p, err)
				}
				got, wait := p.Outcome, time.Duration(0)
				if err != nil {
					got, _, wait = outcomeOf(err)
				}
				if got != want || wait != test.wait {
					t.Errorf("%s: got outcome %d and a wait of %s, want %d and %s (%v)", what, got, wait, want, test.wait, err)
				}
			}
			if !strings.HasPrefix(name, "409") { // which says that nothing is left
				err := a.step.Cancel(t.Context(), a.work)
				if got, final, wait := outcomeOf(err); got != test.outcome || final != test.final || wait != test.wait {
					t.Errorf("Cancel: got %d, %v, %s: %v", got, final, wait, err)
				}
				// A DELETE may be made again: nothing counts its repetitions.
				err = a.step.Undo(t.Context(), a.work)
				if got, final, _ := outcomeOf(err); got != steps.NotDone || final != test.final {
					t.Errorf("Undo: got %d, %v: %v", got, final, err)
				}
			}
			// A request that reads has done nothing, and neither has a look.
			for _, config := range []string{`{"request": {"method": "GET", "url": "OUTSIDE", "timeout": "300ms"}}`, `{"request": {"url": "OUTSIDE/fine"}, "find": {"url": "OUTSIDE", "timeout": "300ms"}}`} {
				p, err := newAttempt(t, o, config).step.Start(t.Context(), a.work)
				if (p.Phase == steps.Failed) != test.final || p.Outcome != steps.NotDone || steps.OutcomeOf(err) != steps.NotDone {
					t.Errorf("%s: got %+v, %v", config, p, err)
				}
			}
		})
	}
}

func TestNobodyListensIsNotDone(t *testing.T) {
	o := newOutside(t, answer200(""))
	a := newAttempt(t, o, `{"request": {"url": "OUTSIDE"}}`)
	o.Close()
	if p, err := a.step.Start(t.Context(), a.work); err == nil || p.Phase != "" || steps.OutcomeOf(err) != steps.NotDone {
		t.Errorf("got %+v, %v", p, err)
	}
}

// An operation that is told to end, as by an abort, says nothing of the configuration.
func TestAnOperationThatIsToldToEnd(t *testing.T) {
	o := newOutside(t, answer200(""))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, request := range []string{`{"url": "OUTSIDE/{{ rollout.name }}"}`, `{"url": "OUTSIDE", "json": {"a": "{{ rollout.name }}"}}`, `{"url": "OUTSIDE", "headers": {"X-A": "{{ rollout.name }}"}}`} {
		a := newAttempt(t, o, `{"request": `+request+`}`)
		if p, err := a.step.Start(ctx, a.work); err == nil || p.Phase != "" || steps.OutcomeOf(err) != steps.NotDone {
			t.Errorf("%s: got %+v, %v", request, p, err)
		}
	}
}

// A refusal after a request that may have been carried out does not say that it was not.
func TestARefusalAfterARequestThatMayHaveBeenCarriedOut(t *testing.T) {
	a := newAttempt(t, newOutside(t, status(409)), `{"request": {"method": "PUT", "url": "OUTSIDE/locks/prod"}, "cancel": {"method": "DELETE", "url": "OUTSIDE/locks/prod"}}`)
	if p, _ := a.start(steps.Failed, "answered 409 Conflict"); p.Outcome != steps.NotDone {
		t.Errorf("got outcome %d of a request that was refused", p.Outcome)
	}
	a.work.Earlier = steps.MayBeDone
	if p, _ := a.start(steps.Failed); p.Outcome != steps.MayBeDone {
		t.Errorf("got outcome %d after an earlier one", p.Outcome)
	}
}

// The answer to what a redirect leads to says nothing of the request that was redirected.
func TestARefusalAfterARedirect(t *testing.T) {
	for _, redirect := range []int{301, 302, 303} {
		for _, refuse := range []int{401, 404, 429} {
			o := newOutside(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == "/token":
					w.Header().Set("Content-Type", "application/json")
					fmt.Fprint(w, `{"access_token": "t0ken", "expires_in": 600}`)
				case r.Method == http.MethodPost:
					http.Redirect(w, r, "/runs/7", redirect)
				default:
					w.WriteHeader(refuse)
				}
			})
			a := newAttempt(t, o, `{"request": {"url": "OUTSIDE/runs", "auth": {"oauth2": {"tokenURL": "OUTSIDE/token", "clientID": "a", "clientSecret": `+ref("ci", "client")+`}}}}`)
			a.api.PutObject("secrets", secretOf("demo", "ci", map[string]string{"client": "cl13nt"}))
			for n := 1; n <= 2; n++ { // the second time with a token that is kept
				p, err := a.step.Start(t.Context(), a.work)
				if got := max(p.Outcome, steps.OutcomeOf(err)); got != steps.MayBeDone || o.count("POST", "/runs") != n {
					t.Errorf("%d, %d: got outcome %d after %d requests, want one that may be done after %d: %+v, %v", redirect, refuse, got, o.count("POST", "/runs"), n, p, err)
				}
			}
		}
	}
}

func TestAGateHasDoneNothing(t *testing.T) {
	for config, want := range map[string]steps.Outcome{`{"poll": {"url": "OUTSIDE"}}`: steps.NotDone, `{"poll": {"url": "OUTSIDE"}, "cancel": {"url": "OUTSIDE"}}`: steps.Done} {
		a := newAttempt(t, newOutside(t, status(400)), config)
		if p, _ := a.start(steps.Failed, "answered 400"); p.Outcome != want {
			t.Errorf("%s: got outcome %d, want %d", config, p.Outcome, want)
		}
	}
}

func TestWhichRequestsMayBeRepeated(t *testing.T) {
	o := newOutside(t, answer200(""))
	for config, want := range map[string]bool{
		`{"request": {"url": "OUTSIDE"}}`:                                           false,
		`{"request": {"url": "OUTSIDE", "method": "PATCH"}}`:                        false,
		`{"request": {"url": "OUTSIDE", "idempotent": true}}`:                       true,
		`{"request": {"url": "OUTSIDE", "method": "PUT"}}`:                          true,
		`{"request": {"url": "OUTSIDE", "method": "DELETE"}}`:                       true,
		`{"request": {"url": "OUTSIDE", "method": "PUT", "idempotent": false}}`:     false,
		`{"request": {"url": "OUTSIDE", "method": "GET", "idempotent": false}}`:     true,
		`{"poll": {"url": "OUTSIDE"}}`:                                              true,
		`{"request": {"url": "OUTSIDE"}, "find": {"url": "OUTSIDE"}}`:               false,
		`{"request": {"url": "OUTSIDE", "timeout": "5m"}, "cancel": {"url": "x:"}}`: false,
	} {
		if strings.Contains(config, `"x:"`) {
			config = strings.Replace(config, "x:", "OUTSIDE", 1)
		}
		a := newAttempt(t, o, config)
		if got := a.step.Repeatable(); got != want {
			t.Errorf("%s: got %v", config, got)
		}
		if got, want := a.step.Finds(), strings.Contains(config, "find"); got != want {
			t.Errorf("%s: finds is %v", config, got)
		}
	}
}

// After three requests that may have been carried out, Start only looks.
func TestAStartThatOnlyLooks(t *testing.T) {
	there := false
	o := newOutside(t, func(w http.ResponseWriter, _ *http.Request) {
		if !there {
			w.WriteHeader(http.StatusNotFound)
		}
	})
	a := newAttempt(t, o, `{"request": {"url": "OUTSIDE"}, "find": {"url": "OUTSIDE/{{ step.key }}"}}`)
	a.work.Earlier, a.work.LookOnly = steps.MayBeDone, true
	_, _ = a.start("", "find does not show yet")
	there = true
	_, _ = a.start(steps.Successful, "found what an earlier request has started")
	if n := o.count("POST", "/"); n != 0 {
		t.Errorf("%d requests, want looks alone", n)
	}
}

// The user's name is in the URL of the work.
func TestAnswersAreNotAltered(t *testing.T) {
	o := newOutside(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"url": "/job/jenkins/17", "by": "jenkins", "as": "the-client"}`)
	})
	a := newAttempt(t, o, `{
		"server": {"url": "OUTSIDE", "auth": {"basic": {"username": `+ref("ci", "user")+`, "password": `+ref("ci", "password")+`}}},
		"request": {"url": "/build"}, "outputs": {"url": "response.json.url", "by": "response.json.by"},
		"poll": {"url": "{{ outputs.url }}/status", "successCondition": "response.json.by == \"jenkins\" && response.text.contains(\"/jenkins/17\")"}
	}`)
	a.api.PutObject("secrets", secretOf("demo", "ci", map[string]string{"user": "jenkins", "password": "the-client"}))
	p, _ := a.start(steps.Running)
	if a.work.Outputs = p.Outputs; p.Outputs["url"] != "/job/jenkins/17" {
		t.Fatalf("got outputs %q", p.Outputs)
	}
	_, _ = a.poll(steps.Successful)
	if o.count("GET", "/job/jenkins/17/status") == 0 {
		t.Errorf("got %+v", o.all())
	}
	// What holds a secret is not kept.
	for name, value := range map[string]string{"as it is": "response.json.as", "in base64": `base64.encode(bytes("user:" + response.json.as))`, "in a text": "response.text"} {
		for _, config := range []string{`"request": {"url": "/"}, "outputs": {"as": VALUE}`, `"poll": {"url": "/", "successCondition": "false", "outputs": {"as": VALUE}}`, `"request": {"url": "/"}, "find": {"url": "/", "outputs": {"as": VALUE}}`} {
			quoted, _ := json.Marshal(value)
			b := newAttempt(t, o, `{"server": {"url": "OUTSIDE", "auth": {"bearer": `+ref("ci", "password")+`}}, `+strings.Replace(config, "VALUE", string(quoted), 1)+`}`)
			b.api.PutObject("secrets", secretOf("demo", "ci", map[string]string{"password": "the-client"}))
			p, _ := b.start(steps.Failed, "outputs.as: the value holds a secret of the step")
			if strings.Contains(fmt.Sprint(p), "the-client") || strings.HasPrefix(config, `"request": {"url": "/"}, "outputs"`) && p.Outcome != steps.Done {
				t.Errorf("%s: got %+v", name, p)
			}
		}
	}
}

// A successful answer may hold a token that nobody knew before.
func TestSuccessfulAnswersAreNotQuoted(t *testing.T) {
	const body = `{"token": "fr3sh-t0ken", "state": "failed"}`
	for name, test := range map[string]struct {
		config string
		phase  steps.Phase
		words  string
	}{
		"a missing output":            {`"request": {"url": "OUTSIDE"}, "outputs": {"id": "response.json.id"}`, steps.Failed, "answered 200 OK, and outputs.id: "},
		"an output of another type":   {`"request": {"url": "OUTSIDE"}, "outputs": {"id": "response.json"}`, steps.Failed, "outputs.id: "},
		"a missing output of a poll":  {`"poll": {"url": "OUTSIDE", "outputs": {"id": "response.json.id"}}`, steps.Failed, "poll.outputs.id: "},
		"an index by the body":        {`"poll": {"url": "OUTSIDE", "outputs": {"id": "rollout.labels[response.json.token]"}}`, steps.Failed, "poll.outputs.id: "},
		"a number":                    {`"poll": {"url": "OUTSIDE", "outputs": {"id": "int(response.json.token)"}}`, steps.Failed, "poll.outputs.id: "},
		"a condition of another type": {`"poll": {"url": "OUTSIDE", "successCondition": "response.json.token"}`, "", "poll.successCondition: "},
		"a condition without a value": {`"poll": {"url": "OUTSIDE", "successCondition": "false", "failureCondition": "response.json.stat == 1"}`, "", "poll.failureCondition: "},
		"a pattern":                   {`"poll": {"url": "OUTSIDE", "successCondition": "rollout.name.matches(\"(\" + response.json.token)"}`, "", "poll.successCondition: "},
		"a failure":                   {`"poll": {"url": "OUTSIDE", "successCondition": "false", "failureCondition": "response.json.state == \"failed\""}`, steps.Failed, `poll.failureCondition is true: response.json.state == "failed"`},
		"an accepted status":          {`"poll": {"url": "OUTSIDE/404", "accept": [404], "successCondition": "false", "failureCondition": "response.json.state == \"failed\""}`, steps.Failed, "answered 404 Not Found, and poll.failureCondition"},
		"a URL":                       {`"poll": {"url": "OUTSIDE", "successCondition": "response.json.token == outputs.x", "outputs": {"x": "response.json.token"}}`, "", "poll.successCondition: "},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAttempt(t, newOutside(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/404" {
					w.WriteHeader(404)
				}
				fmt.Fprint(w, body)
			}), "{"+test.config+"}")
			p, err := a.start(test.phase, test.words)
			if said := fmt.Sprint(p.Message, err); strings.Contains(said, "fr3sh") {
				t.Errorf("said: %s", said)
			}
		})
	}
}

// message can say why a poll failed, from the poll's outputs.
func TestAMessageOfAFailure(t *testing.T) {
	o := newOutside(t, answer200(`{"state": "failed", "failed": 3}`))
	for message, want := range map[string]string{
		`{{ outputs[?\"failed\"].orValue(\"no\") }} tests failed`: "3 tests failed (GET ",
		`approve {{ rollout.name }}`:                              "GET OUTSIDE answered 200 OK, and poll.failureCondition is true: response.json.state ==",
	} {
		a := newAttempt(t, o, `{"poll": {"url": "OUTSIDE", "successCondition": "false", "failureCondition": "response.json.state == \"failed\"", "outputs": {"failed": "response.json.failed"}}, "message": "`+message+`"}`)
		if p, _ := a.start(steps.Failed); !strings.HasPrefix(p.Message, strings.ReplaceAll(want, "OUTSIDE", o.URL)) {
			t.Errorf("got %q, want %q", p.Message, want)
		}
	}
}

// An error is quoted, with 200 bytes at most and without half a secret at their end.
func TestAQuoteShowsNoHalfOfASecret(t *testing.T) {
	const token = "s3cr3t-t0ken-of-the-api"
	for before := 150; before < 230; before++ {
		o := newOutside(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(400)
			fmt.Fprint(w, strings.Repeat("x", before), r.Header.Get("Authorization"))
		})
		a := newAttempt(t, o, `{"request": {"url": "OUTSIDE", "auth": {"bearer": `+ref("ci", "token")+`}}}`)
		a.api.PutObject("secrets", secretOf("demo", "ci", map[string]string{"token": token}))
		p, _ := a.start(steps.Failed, "answered 400 Bad Request: xxx")
		if strings.Contains(p.Message, "s3c") {
			t.Fatalf("%d: %s", before, p.Message)
		}
	}
}
