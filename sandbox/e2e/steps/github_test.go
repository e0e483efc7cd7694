package steps

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

const (
	githubToken  = "github-token-of-the-test"
	actionsPath  = "/repos/acme/shop/actions"
	workflowPath = actionsPath + "/workflows/e2e.yaml"
)

// github is a stand-in for the part of GitHub's REST API (version 2022-11-28) that the
// sample uses, and refuses anything else: it starts runs of a workflow, shows and lists
// them, and cancels them.
type github struct {
	mu sync.Mutex
	// loseAnswer makes it start the next run without an answer.
	loseAnswer bool
	runs       []*githubRun
	// refused are the requests that GitHub would not take.
	refused []string
}

type githubRun struct {
	ID           int     `json:"id"`
	DisplayTitle string  `json:"display_title"`
	Status       string  `json:"status"`
	Conclusion   *string `json:"conclusion"`
	HTMLURL      string  `json:"html_url"`

	inputs map[string]string
}

func (g *github) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	refuse := func(code int, format string, args ...any) {
		message := fmt.Sprintf(format, args...)
		g.refused = append(g.refused, fmt.Sprintf("%s %s: %s", r.Method, r.URL, message))
		http.Error(w, message, code)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer " + githubToken, "Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28",
	} {
		if got := r.Header.Get(name); got != want {
			refuse(http.StatusUnauthorized, "%s is %q", name, got)
			return
		}
	}
	id, cancel := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, actionsPath+"/runs/"), "/cancel")
	i := slices.IndexFunc(g.runs, func(run *githubRun) bool { return fmt.Sprint(run.ID) == id })
	switch {
	case r.Header.Get("User-Agent") == "":
		refuse(http.StatusForbidden, "no User-Agent")
	case r.Method == http.MethodPost && r.URL.Path == workflowPath+"/dispatches":
		g.dispatch(w, r, refuse)
	case r.Method == http.MethodGet && r.URL.Path == workflowPath+"/runs" && r.URL.Query().Get("event") == "workflow_dispatch":
		_ = json.NewEncoder(w).Encode(map[string]any{"total_count": len(g.runs), "workflow_runs": append([]*githubRun{}, g.runs...)})
	case i >= 0 && r.Method == http.MethodGet && !cancel:
		_ = json.NewEncoder(w).Encode(g.runs[i])
	case i >= 0 && r.Method == http.MethodPost && cancel:
		g.runs[i].end("cancelled")
		w.WriteHeader(http.StatusAccepted)
	default:
		refuse(http.StatusNotFound, "there is no such resource")
	}
}

func (g *github) dispatch(w http.ResponseWriter, r *http.Request, refuse func(int, string, ...any)) {
	var body struct {
		Ref     string            `json:"ref"`
		Details bool              `json:"return_run_details"`
		Inputs  map[string]string `json:"inputs"`
	}
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	names := func() []string { return slices.Sorted(maps.Keys(body.Inputs)) }
	if err := decoder.Decode(&body); err != nil || body.Ref != "main" || !body.Details || !slices.Equal(names(), []string{"image", "key", "namespace"}) {
		refuse(http.StatusUnprocessableEntity, "ref %q, inputs %v: %v", body.Ref, body.Inputs, err)
		return
	}
	id := 9_007_199_254_740_993 + len(g.runs) // a float64 cannot hold it exactly
	run := &githubRun{
		ID: id, DisplayTitle: body.Inputs["key"], Status: "queued",
		HTMLURL: fmt.Sprintf("https://github.com/acme/shop/actions/runs/%d", id), inputs: body.Inputs,
	}
	g.runs = append(g.runs, run)
	if g.loseAnswer {
		g.loseAnswer = false
		panic(http.ErrAbortHandler)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"workflow_run_id": id, "run_url": run.HTMLURL, "html_url": run.HTMLURL})
}

func (r *githubRun) end(conclusion string) { r.Status, r.Conclusion = "completed", &conclusion }

// end ends the last run.
func (g *github) end(conclusion string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.runs[len(g.runs)-1].end(conclusion)
}

// all returns the runs, and fails the test if a request was refused that GitHub would
// not take.
func (g *github) all(t *testing.T) []githubRun {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, refused := range g.refused {
		t.Errorf("GitHub would not take %s", refused)
	}
	var all []githubRun
	for _, run := range g.runs {
		all = append(all, *run)
	}
	return all
}

// awaitCancelled waits until a run, counted from 0, has been cancelled.
func (g *github) awaitCancelled(t *testing.T, run int) {
	t.Helper()
	e2etest.Eventually(t, e2etest.Patience, fmt.Sprintf("run %d is cancelled", run), func(context.Context) error {
		all := g.all(t)
		if len(all) <= run || all[run].Conclusion == nil || *all[run].Conclusion != "cancelled" {
			return fmt.Errorf("the runs are %+v", all)
		}
		return nil
	})
}

// The sample that runs a workflow of GitHub Actions: the step follows the run that it has
// started by the run's id, and an abort and a full promotion cancel the run. A run whose
// start was not answered is found by its key. The token of the preset is nowhere in the
// Rollout or its Events.
func TestGitHubActionsSample(t *testing.T) {
	t.Parallel()
	g := &github{}
	url := e2etest.Serve(t, g)
	manifests := sample(t, "github-actions.yaml", "api.github.com", url)
	n := e2etest.NewNamespace(t)
	n.Apply(manifests[0])
	n.Apply("apiVersion: v1\nkind: Secret\nmetadata: {namespace: argo-rollouts, name: github}\nstringData: {token: " + githubToken + "}\n")
	// A shorter timeout has an unanswered start made again sooner.
	start(t, n, map[string]string{"shop": strings.Replace(manifests[1], "{use: e2e}", "{use: e2e, timeout: 2m}", 1)})
	awaitRun := func(id string) {
		t.Helper()
		n.AwaitStep("shop", 1, v1alpha1.StepPluginPhaseRunning, "https://github.com/acme/shop/actions/runs/"+id)
	}

	awaitRun("9007199254740993")
	if run := g.all(t)[0]; run.inputs["image"] != e2etest.Image("yellow") || run.inputs["namespace"] != n.Name {
		t.Errorf("the run was started with %v", run.inputs)
	}
	n.Abort("shop")
	n.AwaitAborted("shop")
	g.awaitCancelled(t, 0)

	g.mu.Lock()
	g.loseAnswer = true
	g.mu.Unlock()
	n.Retry("shop")
	awaitRun("9007199254740994")
	g.end("success")
	n.AwaitHealthy("shop", e2etest.Image("yellow"))
	if all := g.all(t); len(all) != 2 {
		t.Errorf("%d runs, want one for each canary", len(all))
	}

	n.SetImage("shop", e2etest.Image("blue"))
	awaitRun("9007199254740995")
	n.Promote("shop", "--full")
	g.awaitCancelled(t, 2)
	n.AwaitHealthy("shop", e2etest.Image("blue"))

	said := n.Kubectl("get", "rollouts,events", "-o", "yaml")
	if strings.Contains(said, githubToken) {
		t.Error("the token is in the Rollout or its Events")
	}
}
