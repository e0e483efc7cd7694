package steps

import (
	"net/http"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

const grafanaToken = "glsa_token-of-the-test"

// grafana is a stand-in for the part of Grafana's HTTP API that makes annotations.
type grafana struct {
	standIn
	// marks are the tags and the text of each annotation.
	marks []string
}

func (g *grafana) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var body struct {
		DashboardUID  string `json:"dashboardUID"`
		PanelID       int64  `json:"panelId"`
		Time, TimeEnd int64
		Tags          []string
		Text          string
	}
	err := readJSON(r, &body)
	switch {
	case r.Header.Get("Authorization") != "Bearer "+grafanaToken:
		g.refuse(w, r, http.StatusUnauthorized, `{"message": "Invalid API key"}`)
	case r.Method != http.MethodPost || r.URL.Path != "/api/annotations":
		g.refuse(w, r, http.StatusNotFound, `{"message": "Not found"}`)
	case err != nil || body.Text == "":
		g.refuse(w, r, http.StatusBadRequest, `{"message": "bad request data: %v"}`, err)
	default:
		g.marks = append(g.marks, strings.Join(body.Tags, " ")+": "+body.Text)
		g.answer(w, http.StatusOK, map[string]any{"message": "Annotation added", "id": len(g.marks)})
	}
}

func (g *grafana) all() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string{}, g.marks...)
}

// The sample for Grafana: a mark at the beginning, one at the end, and one on an abort.
func TestGrafanaSample(t *testing.T) {
	t.Parallel()
	g, n := &grafana{}, e2etest.NewNamespace(t)
	manifests := sample(t, "grafana.yaml", "grafana.example.com", e2etest.Serve(t, g))
	name := startSample(t, n, manifests, "name: grafana}\nstringData: {token: "+grafanaToken+"}")
	tags := func(what string) string {
		return "canary " + what + " " + n.Name + " " + name + ": The canary of revision "
	}

	n.AwaitPaused(name, 2)
	begin := tags("begin") + "2 has begun: " + e2etest.Image("yellow")
	awaitTexts(t, "the first mark", g.all, begin)
	n.Promote(name)
	n.AwaitHealthy(name, e2etest.Image("yellow"))
	end := tags("end") + "2 is through"
	awaitTexts(t, "the marks of the first canary", g.all, begin, end)
	n.SetImage(name, e2etest.Image("green"))
	n.AwaitPaused(name, 2)
	n.Abort(name)
	n.AwaitAborted(name)
	awaitTexts(t, "the marks of both canaries", g.all, begin, end, tags("begin")+"3 has begun", tags("abort")+"3 was aborted")

	g.requireNoneRefused(t)
	requireHidden(t, n, grafanaToken)
}
