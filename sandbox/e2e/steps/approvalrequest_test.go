package steps

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

const approvalsToken = "approvals-token-of-the-test"

// changes is a stand-in for a system in which a change is asked for under a key, approved or
// rejected, and withdrawn.
type changes struct {
	standIn
	all []*change
}

type change struct {
	key, title, image, team string
	// asked counts how often the change was asked for.
	asked int
	state string
}

func (c *changes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key, found := strings.CutPrefix(r.URL.Path, "/api/changes/")
	i := slices.IndexFunc(c.all, func(one *change) bool { return one.key == key })
	show := func(one *change) {
		c.answer(w, http.StatusOK, map[string]string{"state": one.state, "by": "ann", "url": "https://approvals.example.com/changes/" + key})
	}
	switch {
	case r.Header.Get("Authorization") != "Bearer "+approvalsToken:
		c.refuse(w, r, http.StatusUnauthorized, "no token")
	case !found || key == "":
		c.refuse(w, r, http.StatusNotFound, "no change")
	case r.Method == http.MethodPut:
		var body struct{ Title, Image, Team string }
		if err := readJSON(r, &body); err != nil || body.Title == "" || body.Image == "" || body.Team == "" {
			c.refuse(w, r, http.StatusBadRequest, "%+v: %v", body, err)
			return
		}
		if i < 0 {
			i, c.all = len(c.all), append(c.all, &change{key: key, title: body.Title, image: body.Image, team: body.Team, state: "waiting"})
		}
		c.all[i].asked++
		show(c.all[i])
	case i < 0:
		c.refuse(w, r, http.StatusNotFound, "no such change")
	case r.Method == http.MethodGet:
		show(c.all[i])
	case r.Method == http.MethodDelete:
		c.all[i].state = "withdrawn"
		c.answer(w, http.StatusNoContent, nil)
	default:
		c.refuse(w, r, http.StatusMethodNotAllowed, "no such method")
	}
}

// about returns the changes that have the namespace in their title.
func (c *changes) about(namespace string) (about []change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.all {
		if strings.HasPrefix(one.title, namespace+"/") {
			about = append(about, *one)
		}
	}
	return about
}

// decide sets the state of the change with a key.
func (c *changes) decide(key, state string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all[slices.IndexFunc(c.all, func(one *change) bool { return one.key == key })].state = state
}

// The sample of an approval that the step asks for: the change is there once, though the first
// answer is lost. The decision lets the canary go on or aborts it, and an abort withdraws the
// change.
func TestApprovalRequestSample(t *testing.T) {
	t.Parallel()
	c := &changes{standIn: standIn{loseAnswer: true}}
	manifests := sample(t, "approval-request.yaml", "approvals.example.com", e2etest.Serve(t, c))
	for state, end := range map[string]func(*e2etest.Namespace, string){
		"approved":  func(n *e2etest.Namespace, name string) { n.AwaitHealthy(name, e2etest.Image("yellow")) },
		"rejected":  func(n *e2etest.Namespace, name string) { n.AwaitAborted(name) },
		"withdrawn": func(n *e2etest.Namespace, name string) { n.Abort(name); n.AwaitAborted(name) },
	} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			n := e2etest.NewNamespace(t)
			name := startSample(t, n, manifests, "name: approvals}\nstringData: {token: "+approvalsToken+"}", "interval: 30s", "interval: 11s")
			const at = "/changes/"
			ro := n.AwaitStep(name, 1, v1alpha1.StepPluginPhaseRunning, "approve "+n.Name+"/"+name+" at ", at)
			_, key, _ := strings.Cut(stepStatus(ro, 1, v1alpha1.StepPluginOperationRun).Message, at)
			if asked := c.about(n.Name); len(asked) != 1 || asked[0].key != key || asked[0].team != "payments" || asked[0].image != e2etest.Image("yellow") {
				t.Fatalf("the message is about %s, and these were asked for: %+v", key, asked)
			}
			if state != "withdrawn" {
				c.decide(key, state)
			}
			end(n, name)
			awaitTexts(t, "the change's state", func() []string { return []string{c.about(n.Name)[0].state} }, state)
			requireHidden(t, n, approvalsToken)
		})
	}
	t.Cleanup(func() { c.requireNoneRefused(t) })
}
