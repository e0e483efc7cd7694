package steps

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

const (
	jiraEmail = "rollouts@example.com"
	jiraToken = "api-token-of-the-test"
	jiraIssue = "/rest/api/3/issue/SHOP-1"
)

// jira is a stand-in for the part of JIRA Cloud's REST API (version 3) that shows the status of
// an issue and makes its transitions: 31 from Ready to Deploying, 41 back.
type jira struct {
	standIn
	status string
	// made are the ids of the transitions that were made.
	made []string
}

func (j *jira) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	j.mu.Lock()
	defer j.mu.Unlock()
	user, password, _ := r.BasicAuth()
	switch {
	case user != jiraEmail || password != jiraToken:
		j.refuse(w, r, http.StatusUnauthorized, "Client must be authenticated to access this resource.")
	case r.Method == http.MethodGet && r.URL.Path == jiraIssue && r.URL.Query().Get("fields") == "status":
		_ = json.NewEncoder(w).Encode(map[string]any{"key": "SHOP-1", "fields": map[string]any{"status": map[string]any{"name": j.status}}})
	case r.Method == http.MethodPost && r.URL.Path == jiraIssue+"/transitions":
		var body struct {
			Transition struct{ ID string }
		}
		err := readJSON(r, &body)
		switch id := body.Transition.ID; {
		case err == nil && id == "31" && j.status == "Ready":
			j.status = "Deploying"
		case err == nil && id == "41" && j.status == "Deploying":
			j.status = "Ready"
		default:
			j.refuse(w, r, http.StatusBadRequest, `{"errorMessages": ["It seems that you have tried to perform a workflow operation (%s) that is not valid for the current state of this issue (%s): %v"], "errors": {}}`, id, j.status, err)
			return
		}
		j.made = append(j.made, body.Transition.ID)
		j.answer(w, http.StatusNoContent, nil)
	default:
		j.refuse(w, r, http.StatusNotFound, `{"errorMessages": ["Issue does not exist or you do not have permission to see it."], "errors": {}}`)
	}
}

func (j *jira) transitions() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]string{}, j.made...)
}

// The sample for JIRA: a transition is made once, though its answer is lost, and no second time
// by a canary that finds it made. An abort takes it back.
func TestJIRASample(t *testing.T) {
	t.Parallel()
	j, n := &jira{standIn: standIn{loseAnswer: true}, status: "Ready"}, e2etest.NewNamespace(t)
	manifests := sample(t, "jira.yaml", "acme.atlassian.net", e2etest.Serve(t, j))
	name := startSample(t, n, manifests, "name: jira}\nstringData: {email: "+jiraEmail+", token: "+jiraToken+"}")

	n.AwaitPaused(name, 2)
	awaitTexts(t, "one transition", j.transitions, "31")
	n.Promote(name)
	n.AwaitHealthy(name, e2etest.Image("yellow"))
	n.SetImage(name, e2etest.Image("green"))
	n.AwaitPaused(name, 2)
	awaitTexts(t, "no transition more", j.transitions, "31")
	n.Abort(name)
	n.AwaitAborted(name)
	awaitTexts(t, "the transition back", j.transitions, "31", "41")

	j.requireNoneRefused(t)
	requireHidden(t, n, jiraToken)
}
