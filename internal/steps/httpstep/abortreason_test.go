package httpstep

import (
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// onAbort tells why the canary was aborted, with whatever the reason has in it: what a header
// cannot have would keep it from being made.
func TestOnAbortTellsWhy(t *testing.T) {
	const why = `Step Plugin 4 (kedify/step) failed: tests: "a" & b`
	for _, condition := range []v1alpha1.RolloutCondition{
		{Type: v1alpha1.RolloutProgressing, Reason: "RolloutAborted", Message: "Rollout aborted update to revision 7: " + why + "\x1b\x00\u202e\n"}, {},
	} {
		o := newOutside(t, answer200(`{}`))
		h := newHost(t, o, `{"request": {"url": "OUTSIDE/begin"}, "onAbort": {
			"url": "OUTSIDE/undo?why={{ abort.reason }}", "headers": {"X-Why": "{{ abort.reason }}"},
			"json": {"text": "rolled back{{ abort.reason == \"\" ? \"\" : \": \" + abort.reason }}"}, "successCondition": "abort.reason != \"x\""
		}}`)
		h.run()
		h.require(types.PhaseSuccessful)
		h.ro.Status.Abort = true
		h.ro.Status.Conditions = []v1alpha1.RolloutCondition{condition}
		if result, _ := h.plugin.Abort(h.ro, h.call()); result.Phase != types.PhaseSuccessful || o.count("POST", "/undo") != 1 {
			t.Fatalf("got %s %q, %+v", result.Phase, result.Message, o.all())
		}
		got := o.all()[1]
		if condition.Reason == "" {
			if got.body != `{"text":"rolled back"}` || got.path != "/undo?why=" || got.header.Get("X-Why") != "" {
				t.Errorf("without a reason: got %+v", got)
			}
			continue
		}
		if got.body != `{"text":"rolled back: Step Plugin 4 (kedify/step) failed: tests: \"a\" & b"}` || got.header.Get("X-Why") != why {
			t.Errorf("got %+v", got)
		}
	}
}

// The name is for clean-ups alone: in other requests it would always be empty.
func TestWhereTheReasonOfAnAbortIsKnown(t *testing.T) {
	for config, want := range map[string]string{
		`{"request": {"url": "http://127.0.0.1", "json": {"a": "{{ abort.reason }}"}}}`:                                                       "request.json: a: abort.reason: there is no abort here",
		`{"request": {"url": "http://127.0.0.1"}, "message": "{{ abort.reason }}"}`:                                                           "message: ",
		`{"poll": {"url": "http://127.0.0.1", "successCondition": "abort.reason == \"\""}}`:                                                   "poll.successCondition: ",
		`{"request": {"url": "http://127.0.0.1"}, "cancel": {"url": "http://127.0.0.1", "text": "{{ abort.reason }}"}}`:                       "",
		`{"request": {"url": "http://127.0.0.1"}, "onAbort": {"url": "http://127.0.0.1", "form": {"a": "{{ abort.reason }}"}}}`:               "",
		`{"request": {"url": "http://127.0.0.1"}, "onAbort": {"url": "http://127.0.0.1", "text": "{{ abort.raeson }}"}}`:                      "onAbort.text: ",
		`{"request": {"url": "http://127.0.0.1"}, "onAbort": {"url": "http://127.0.0.1", "text": "{{ abort }}"}}`:                             "onAbort.text: abort: abort is no value of its own: write abort.reason",
		`{"server": {"url": "http://127.0.0.1", "headers": {"X-A": "{{ abort.reason }}"}}, "request": {"url": "/"}, "onAbort": {"url": "/"}}`: "server.headers.X-A: ",
	} {
		_, err := newKind(t).Parse(steps.Source{Config: []byte(config)})
		if want == "" && err != nil || want != "" && (err == nil || len(err.Error()) < len(want) || err.Error()[:len(want)] != want) {
			t.Errorf("%s: got %v, want %s", config, err, want)
		}
	}
}
