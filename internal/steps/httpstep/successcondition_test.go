package httpstep

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/argoproj/argo-rollouts/utils/plugin/types"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// A request whose successCondition is false was refused: it has done nothing.
func TestWhatSuccessConditionSays(t *testing.T) {
	for name, test := range map[string]struct {
		status      int
		body        string
		condition   string
		phase       steps.Phase
		outcome     steps.Outcome
		words, also string
	}{
		"true":               {200, `{"ok": true}`, "response.json.ok", steps.Successful, steps.NotDone, "answered 200 OK", ""},
		"false":              {200, `{"ok": false, "error": "channel_not_found"}`, "response.json.ok", steps.Failed, steps.NotDone, "answered 200 OK, and request.successCondition is false: response.json.ok: ", "channel_not_found"},
		"false, with 201":    {201, `{"ok": false}`, "response.json.ok", steps.Failed, steps.NotDone, "answered 201 Created, and ", ""},
		"of the status":      {202, ``, "response.status == 200", steps.Failed, steps.NotDone, "is false: response.status == 200", ""},
		"no value":           {200, `{}`, "response.json.ok", steps.Failed, steps.MayBeDone, "answered 200 OK, and request.successCondition: ", ""},
		"no JSON":            {200, `<html>`, "response.json.ok", steps.Failed, steps.MayBeDone, "request.successCondition: the answer is no JSON", ""},
		"false without JSON": {200, `<html>`, "response.json.?ok.orValue(false)", steps.Failed, steps.MayBeDone, "request.successCondition: the answer is no JSON", ""},
		"false of nothing":   {200, ``, "response.status == 204 || response.json.?ok.orValue(false)", steps.Failed, steps.MayBeDone, "request.successCondition: the answer is no JSON", ""},
		"true of nothing":    {204, ``, "response.status == 204 || response.json.ok", steps.Successful, steps.NotDone, "answered 204", ""},
		"false of a text":    {200, `busy`, `response.text == \"ok\"`, steps.Failed, steps.NotDone, "is false: ", "busy"},
		"no boolean":         {200, `{"ok": "yes"}`, "response.json.ok", steps.Failed, steps.MayBeDone, "request.successCondition: ", ""},
		"an answer of 4xx":   {400, `{"ok": true}`, "response.json.ok", steps.Failed, steps.NotDone, "answered 400 Bad Request: ", ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOutside(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.status)
				fmt.Fprint(w, test.body)
			})
			a := newAttempt(t, o, `{"request": {"url": "OUTSIDE", "successCondition": "`+test.condition+`"}}`)
			p, _ := a.start(test.phase, test.words, test.also)
			if p.Outcome != test.outcome {
				t.Errorf("got outcome %d, want %d: %s", p.Outcome, test.outcome, p.Message)
			}
		})
	}
}

// A long condition leaves room for what the API says.
func TestAMessageShowsWhatALongSuccessConditionRefuses(t *testing.T) {
	o := newOutside(t, answer200(`{"error": "channel_not_found"}`))
	h := newHost(t, o, `{"request": {"url": "OUTSIDE", "successCondition": "response.json.error == \"`+strings.Repeat("x", 1980)+`\"\n|| false"}}`)
	h.run()
	h.require(types.PhaseFailed, "channel_not_found")
}

// Where nothing is known of a request that may be made again, it is.
func TestASuccessConditionWithoutAValueOfAnIdempotentRequest(t *testing.T) {
	o := newOutside(t, answer200("<html>"))
	a := newAttempt(t, o, `{"request": {"method": "PUT", "url": "OUTSIDE", "successCondition": "response.json.ok"}}`)
	if _, err := a.start("", "request.successCondition: "); steps.OutcomeOf(err) != steps.MayBeDone {
		t.Errorf("got outcome %d", steps.OutcomeOf(err))
	}
}

// What was refused has started nothing, so that nothing is cancelled or taken back. What was
// accepted is.
func TestWhatSuccessConditionRefusesIsNotCancelled(t *testing.T) {
	for answer, want := range map[string]int{`{"ok": false, "error": "not_in_channel"}`: 0, `{"ok": true}`: 1} {
		o := newOutside(t, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/post":
				fmt.Fprint(w, answer)
			case "/poll":
				w.WriteHeader(http.StatusBadRequest)
			}
		})
		h := newHost(t, o, `{
			"request": {"url": "OUTSIDE/post", "successCondition": "response.json.ok"},
			"poll": {"url": "OUTSIDE/poll"},
			"cancel": {"url": "OUTSIDE/cancel"}, "onAbort": {"url": "OUTSIDE/undo"}
		}`)
		h.until(5)
		h.require(types.PhaseFailed)
		_, _ = h.plugin.Abort(h.ro, h.call())
		if got := o.count("POST", "/cancel"); got != want {
			t.Errorf("%s: %d cancels, want %d: %s", answer, got, want, h.last.Message)
		}
		if got := o.count("POST", "/undo"); got != 0 {
			t.Errorf("%s: %d times taken back, and the step has not succeeded", answer, got)
		}
		if want == 0 && (!strings.Contains(h.last.Message, "not_in_channel") || strings.Contains(h.last.Message, "may be left")) {
			t.Errorf("got %q", h.last.Message)
		}
	}
}

// With retries a refused request is made again, under another key.
func TestARefusedRequestIsRetried(t *testing.T) {
	var n atomic.Int32
	o := newOutside(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"ok": %v}`, n.Add(1) > 1) })
	h := newHost(t, o, `{"retries": 1, "request": {"url": "OUTSIDE/post", "successCondition": "response.json.ok"}, "cancel": {"url": "OUTSIDE/cancel"}}`)
	h.until(3)
	h.require(types.PhaseSuccessful)
	if all := o.all(); len(all) != 2 || all[0].header.Get("Idempotency-Key") == all[1].header.Get("Idempotency-Key") {
		t.Errorf("got %+v", all)
	}
}

// A clean-up that is refused is not tried again, and an Event tells what stays. An answer that
// says that nothing is left is what the condition takes for one.
func TestARefusedCleanup(t *testing.T) {
	for answer, want := range map[string]struct {
		refused bool
		said    string
	}{
		`{"ok": true}`: {},
		`{"ok": false, "error": "message_not_found"}`: {},
		`{"ok": false, "error": "token_revoked"}`:     {true, "onAbort.successCondition is false"},
		`<html>`: {true, "onAbort.successCondition: "},
	} {
		o := newOutside(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/undo" || r.URL.Path == "/cancel" {
				fmt.Fprint(w, answer)
			}
		})
		const condition = `"successCondition": "response.json.ok || response.json.error == \"message_not_found\""`
		a := newAttempt(t, o, `{"request": {"url": "OUTSIDE"}, "cancel": {"url": "OUTSIDE/cancel", `+condition+`}, "onAbort": {"url": "OUTSIDE/undo", `+condition+`}}`)
		a.work.Earlier = steps.Done
		for name, err := range map[string]error{"cancel": a.step.Cancel(t.Context(), a.work), "onAbort": a.step.Undo(t.Context(), a.work)} {
			var e *steps.Error
			if refused := errors.As(err, &e) && e.Final; refused != want.refused || refused && !strings.Contains(err.Error(), strings.ReplaceAll(want.said, "onAbort", name)) || err != nil && !refused {
				t.Errorf("%s, %s: got %v", answer, name, err)
			}
		}
		h := newHost(t, o, `{"request": {"url": "OUTSIDE"}, "onAbort": {"url": "OUTSIDE/undo", `+condition+`}}`)
		h.run()
		h.require(types.PhaseSuccessful)
		_, _ = h.plugin.Abort(h.ro, h.call())
		eventually(t, "the clean-up ends", func() bool {
			return strings.Contains(h.events.text(), map[bool]string{true: "StepLeftBehind", false: "StepCleanedUp"}[want.refused])
		})
		if got := o.count("POST", "/undo"); got != 2 {
			t.Errorf("%s: %d requests of onAbort, want one of each attempt", answer, got)
		}
	}
	// A 404 means that nothing is left, whatever it says.
	a := newAttempt(t, newOutside(t, status(404)), `{"request": {"url": "OUTSIDE"}, "onAbort": {"url": "OUTSIDE", "successCondition": "response.json.ok"}}`)
	if err := a.step.Undo(t.Context(), a.work); err != nil {
		t.Errorf("404: got %v", err)
	}
}

func TestWhereSuccessConditionStands(t *testing.T) {
	for config, want := range map[string]string{
		`{"request": {"url": "OUTSIDE"}, "find": {"url": "OUTSIDE", "successCondition": "true"}}`: "find.successCondition: want none: found says whether there is something",
		`{"request": {"url": "OUTSIDE", "successCondition": "response.jsn.ok"}}`:                  "request.successCondition: ",
		`{"request": {"url": "OUTSIDE", "successCondition": "\"yes\""}}`:                          "request.successCondition: ",
		`{"request": {"url": "OUTSIDE"}, "cancel": {"url": "OUTSIDE", "successCondition": "x"}}`:  "cancel.successCondition: ",
		`{"poll": {"url": "OUTSIDE", "successCondition": "response.json.ok"}}`:                    "",
	} {
		_, err := newKind(t).Parse(steps.Source{Config: []byte(strings.ReplaceAll(config, "OUTSIDE", "http://127.0.0.1"))})
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: got %v, want %s", config, err, want)
		}
	}
}
