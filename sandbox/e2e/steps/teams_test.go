package steps

import (
	"net/http"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

const (
	teamsPath      = "/powerautomate/automations/direct/workflows/1/triggers/manual/paths/invoke"
	teamsSignature = "signature-of-the-test"
)

// teams is a stand-in for a workflow of Microsoft Teams that posts the Adaptive Card of a
// request to a channel.
type teams struct {
	standIn
	posted []string
}

// teamsMessage is the message that the workflow takes, with the parts of a card that the sample
// uses.
type teamsMessage struct {
	Type        string
	Attachments []struct {
		ContentType string
		Content     struct {
			Schema  string `json:"$schema"`
			Type    string
			Version string
			Body    []struct {
				Type, Text string
				Wrap       bool
			}
		}
	}
}

func (m *teams) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var body teamsMessage
	err := readJSON(r, &body)
	switch {
	case r.Method != http.MethodPost || r.URL.Path != teamsPath || r.URL.Query().Get("api-version") != "1":
		m.refuse(w, r, http.StatusNotFound, "WorkflowNotFound")
	case r.URL.Query().Get("sig") != teamsSignature:
		m.refuse(w, r, http.StatusUnauthorized, "DirectApiInvalidAuthorizationScheme")
	case err != nil || body.Type != "message" || len(body.Attachments) != 1:
		m.refuse(w, r, http.StatusBadRequest, "want a message with a card: %+v: %v", body, err)
	default:
		card := body.Attachments[0]
		if c := card.Content; card.ContentType != "application/vnd.microsoft.card.adaptive" || c.Type != "AdaptiveCard" ||
			c.Schema != "http://adaptivecards.io/schemas/adaptive-card.json" || c.Version != "1.4" ||
			len(c.Body) != 1 || c.Body[0].Type != "TextBlock" || c.Body[0].Text == "" {
			m.refuse(w, r, http.StatusBadRequest, "no Adaptive Card: %+v", card)
			return
		}
		m.posted = append(m.posted, card.Content.Body[0].Text)
		m.answer(w, http.StatusAccepted, nil)
	}
}

func (m *teams) texts() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string{}, m.posted...)
}

// The sample for Teams: a card at the beginning, one at the end, and one on an abort. The URL of
// the workflow is nowhere in the Rollout or its Events.
func TestTeamsSample(t *testing.T) {
	t.Parallel()
	m, n := &teams{}, e2etest.NewNamespace(t)
	url := e2etest.Serve(t, m)
	manifests := sample(t, "teams.yaml", `"*.environment.api.powerplatform.com"`, url)
	name := startSample(t, n, manifests, "name: teams}\nstringData: {url: '"+url+teamsPath+"?api-version=1&sp=%2Ftriggers%2Fmanual%2Frun&sv=1.0&sig="+teamsSignature+"'}")
	about := n.Name + "/" + name + ": the canary of revision "

	n.AwaitPaused(name, 2)
	n.Promote(name)
	n.AwaitHealthy(name, e2etest.Image("yellow"))
	awaitTexts(t, "the cards of the first canary", m.texts, about+"2 has begun", about+"2 is through")
	n.SetImage(name, e2etest.Image("green"))
	n.AwaitPaused(name, 2)
	n.Abort(name)
	n.AwaitAborted(name)
	awaitTexts(t, "the cards of the second canary", m.texts, about+"2 has begun", about+"2 is through", about+"3 has begun", about+"3 was aborted")

	m.requireNoneRefused(t)
	requireHidden(t, n, teamsSignature)
}
