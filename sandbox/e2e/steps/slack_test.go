package steps

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

const (
	slackToken   = "xoxb-token-of-the-test"
	slackChannel = "C0123456789"
)

// slack is a stand-in for the methods chat.postMessage and chat.update of Slack's Web API. As
// Slack does, it answers 200 to what it refuses.
type slack struct {
	standIn
	// archived makes it refuse messages, as in a channel that is archived.
	archived bool
	// failing makes it answer 404 to GET /gate, which a step of the test asks for.
	failing  bool
	messages []*slackMessage
}

// slackMessage is a message, and all texts that it has had, in brackets after another.
type slackMessage struct{ ts, texts string }

func (s *slack) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.URL.Path == "/gate" {
		if s.failing {
			http.Error(w, "the gate is shut", http.StatusNotFound)
		}
		return
	}
	var body struct{ Channel, TS, Text string }
	method := strings.TrimPrefix(r.URL.Path, "/api/")
	err := readJSON(r, &body)
	i := slices.IndexFunc(s.messages, func(m *slackMessage) bool { return m.ts == body.TS })
	fail := func(code string) {
		s.refused = append(s.refused, method+": "+code)
		_ = json.NewEncoder(w).Encode(map[string]any{"ok": false, "error": code})
	}
	switch {
	case r.Method != http.MethodPost || method != "chat.postMessage" && method != "chat.update":
		fail("unknown_method")
	case r.Header.Get("Authorization") != "Bearer "+slackToken:
		fail("invalid_auth")
	case err != nil:
		fail("invalid_json: " + err.Error())
	case body.Channel != slackChannel:
		fail("channel_not_found")
	case body.Text == "":
		fail("no_text")
	case s.archived:
		_ = json.NewEncoder(w).Encode(map[string]any{"ok": false, "error": "is_archived"})
	case method == "chat.update" && i < 0:
		fail("message_not_found")
	case method == "chat.update":
		s.messages[i].texts += " [" + body.Text + "]"
		s.answer(w, http.StatusOK, map[string]any{"ok": true, "channel": body.Channel, "ts": body.TS, "text": body.Text})
	case body.TS != "":
		fail("invalid_arg_name")
	default:
		m := &slackMessage{fmt.Sprintf("1503435956.%06d", len(s.messages)+1), "[" + body.Text + "]"}
		s.messages = append(s.messages, m)
		s.answer(w, http.StatusOK, map[string]any{"ok": true, "channel": body.Channel, "ts": m.ts, "message": map[string]any{"type": "message", "text": body.Text}})
	}
}

// texts are those of each message.
func (s *slack) texts() (texts []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.messages {
		texts = append(texts, m.texts)
	}
	return texts
}

// The sample for Slack: each canary has one message, which is updated at the end, or on an abort
// with the reason. What Slack refuses is in an Event, and the canary goes on.
func TestSlackSample(t *testing.T) {
	t.Parallel()
	s, n := &slack{}, e2etest.NewNamespace(t)
	url := e2etest.Serve(t, s)
	manifests := sample(t, "slack.yaml", "slack.com", url)
	const last = "        - setWeight: 100\n"
	gate := "        - plugin: {name: kedify/step, config: {id: gate, http: {poll: {url: '" + url + "/gate'}}}}\n"
	name := startSample(t, n, manifests, "name: slack}\nstringData: {token: "+slackToken+"}", last, gate+last)
	about := n.Name + "/" + name + ": the canary of revision "

	n.AwaitPaused(name, 2)
	begun := "[" + about + "2 has begun]"
	awaitTexts(t, "the message of the first canary", s.texts, begun)
	n.Promote(name)
	n.AwaitHealthy(name, e2etest.Image("yellow"))
	first := begun + " [" + about + "2 is through]"
	awaitTexts(t, "its update", s.texts, first)

	s.mu.Lock()
	s.failing = true
	s.mu.Unlock()
	n.SetImage(name, e2etest.Image("green"))
	n.AwaitPaused(name, 2)
	n.Promote(name)
	n.AwaitAborted(name)
	second := "[" + about + "3 has begun] [" + about + "3 was aborted: "
	awaitTexts(t, "the message of the second canary", s.texts, first, second)
	if said := s.texts()[1]; !strings.Contains(said, "the gate is shut") {
		t.Errorf("%s: want the reason of the abort", said)
	}

	s.mu.Lock()
	s.failing, s.archived = false, true
	s.mu.Unlock()
	n.Retry(name)
	n.AwaitPaused(name, 2)
	n.AwaitEvent("Rollout", name, "StepFailureIgnored", "is_archived")
	n.Promote(name)
	n.AwaitHealthy(name, e2etest.Image("green"))
	awaitTexts(t, "no message more", s.texts, first, second)

	s.requireNoneRefused(t)
	requireHidden(t, n, slackToken)
}
