package httpstep

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/utils/plugin/types"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// An answer is decoded only if an expression uses its JSON, and must not have too many
// values.
func TestAnswersWithManyValues(t *testing.T) {
	large := `{"text": "[{,{,", "list": [0` + strings.Repeat(",0", maxJSONValues) + `]}`
	fits := `{"text": "[{,{,\\\"[,[,", "list": [0` + strings.Repeat(",0", maxJSONValues-5) + `]}`
	for name, test := range map[string]struct {
		answer, config string
		phase          types.StepPhase
		words          string
	}{
		"not looked at":        {large, `"poll": {"url": "OUTSIDE", "successCondition": "response.status == 200 && response.headers[\"content-type\"] != '' && size(response.text) > 100000"}`, types.PhaseSuccessful, ""},
		"few enough":           {fits, `"poll": {"url": "OUTSIDE", "successCondition": "response.json.list[0] == 0"}`, types.PhaseSuccessful, ""},
		"no JSON":              {large + "}", `"poll": {"url": "OUTSIDE", "successCondition": "response.json == null"}`, types.PhaseSuccessful, ""},
		"a condition":          {large, `"poll": {"url": "OUTSIDE", "successCondition": "response.json.list[0] == 0"}`, types.PhaseRunning, "poll.successCondition: the answer has 50004 values in its JSON: want 50000 at most"},
		"an output of a poll":  {large, `"poll": {"url": "OUTSIDE", "outputs": {"a": "response.json.list[0]"}}`, types.PhaseFailed, "poll.outputs.a: the answer has"},
		"an output of request": {large, `"request": {"url": "OUTSIDE"}, "outputs": {"a": "response.json.list[0]"}`, types.PhaseFailed, "outputs.a: the answer has"},
		"a look":               {large, `"request": {"url": "OUTSIDE"}, "find": {"url": "OUTSIDE", "found": "response.json.list[0] == 0"}`, types.PhaseRunning, "find.found: the answer has"},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOutside(t, answer200(test.answer))
			h := newHost(t, o, "{"+test.config+"}")
			h.run()
			for strings.Contains(h.last.Message, "about to be cancelled") {
				h.run()
			}
			h.require(test.phase, strings.ReplaceAll(test.words, "OUTSIDE", o.URL))
		})
	}
}

// The number of answers that are read at the same time is limited. An answer is read even
// if it waits for its turn beyond the end of its operation's context.
func TestAnswersAreReadInTurn(t *testing.T) {
	o := newOutside(t, answer200(`{"ok": true}`))
	h := newHost(t, o, `{"poll": {"url": "OUTSIDE", "successCondition": "response.json.ok"}}`)
	step, err := h.kind.Parse(steps.Source{Config: json.RawMessage(h.config)})
	if err != nil {
		t.Fatal(err)
	}
	var turns []func()
	for range maxDecoders {
		turns = append(turns, h.kind.decoding())
	}
	ctx, cancel := context.WithCancel(t.Context())
	outcome := make(chan string, 1)
	go func() {
		p, err := step.Poll(ctx, steps.Work{Rollout: h.ro})
		outcome <- fmt.Sprint(p.Phase, err)
	}()
	eventually(t, "the poll is made", func() bool { return len(o.all()) == 1 && strings.Contains(h.logged(), "status=200") })
	cancel()
	select {
	case got := <-outcome:
		t.Fatalf("read beside %d others: %s", maxDecoders, got)
	case <-time.After(300 * time.Millisecond):
	}
	turns[0]()
	if got := <-outcome; got != "Successful<nil>" {
		t.Errorf("got %s", got)
	}
}
