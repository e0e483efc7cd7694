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

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/e2etest"
)

const (
	githubToken = "github-token-of-the-test"
	workflow    = "/repos/acme/shop/actions/workflows/e2e.yaml/dispatches"
	runsPath    = "/repos/acme/shop/actions/runs"
)

// github is a stand-in for the part of GitHub's REST API (version 2022-11-28) that the
// sample uses, and refuses anything else: it starts workflow runs, lists them, and
// cancels them. As with GitHub, the answer to a start has no body, and the run is
// listed some time later.
type github struct {
	mu sync.Mutex
	// looks counts how often runs were listed since the last start. From the
	// listedAt-th time on, the list has the last run.
	looks, listedAt int
	runs            []*githubRun
	// refused are the requests that GitHub would not take.
	refused []string
}

type githubRun struct {
	ID           int     `json:"id"`
	DisplayTitle string  `json:"display_title"`
	Event        string  `json:"event"`
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
		if r.Method == http.MethodGet && name != "Authorization" {
			continue // has a default
		}
		if strings.HasSuffix(r.URL.Path, "/cancel") && name != "Authorization" {
			continue
		}
		if got := r.Header.Get(name); got != want {
			refuse(http.StatusUnauthorized, "%s is %q", name, got)
			return
		}
	}
	switch {
	case r.Header.Get("User-Agent") == "":
		refuse(http.StatusForbidden, "no User-Agent")
	case r.Method == http.MethodPost && r.URL.Path == workflow:
		g.dispatch(w, r, refuse)
	case r.Method == http.MethodGet && r.URL.Path == runsPath && r.URL.Query().Get("event") == "workflow_dispatch":
		g.looks++
		listed := []*githubRun{}
		for _, run := range g.runs {
			if run != g.runs[len(g.runs)-1] || g.looks >= g.listedAt {
				listed = append(listed, run)
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"total_count": len(listed), "workflow_runs": listed})
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/cancel"):
		i := slices.IndexFunc(g.runs, func(run *githubRun) bool { return r.URL.Path == fmt.Sprintf("%s/%d/cancel", runsPath, run.ID) })
		if i < 0 {
			refuse(http.StatusNotFound, "there is no such run")
			return
		}
		g.runs[i].end("cancelled")
		w.WriteHeader(http.StatusAccepted)
	default:
		refuse(http.StatusNotFound, "there is no such resource")
	}
}

func (g *github) dispatch(w http.ResponseWriter, r *http.Request, refuse func(int, string, ...any)) {
	var body struct {
		Ref    string            `json:"ref"`
		Inputs map[string]string `json:"inputs"`
	}
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	names := func() []string { return slices.Sorted(maps.Keys(body.Inputs)) }
	if err := decoder.Decode(&body); err != nil || body.Ref != "main" || !slices.Equal(names(), []string{"image", "key", "namespace"}) {
		refuse(http.StatusUnprocessableEntity, "ref %q, inputs %v: %v", body.Ref, body.Inputs, err)
		return
	}
	id := 9_007_199_254_740_993 + len(g.runs) // a float64 cannot hold it exactly
	g.runs = append(g.runs, &githubRun{
		ID: id, DisplayTitle: body.Inputs["key"], Event: "workflow_dispatch", Status: "queued",
		HTMLURL: fmt.Sprintf("https://github.com/acme/shop/actions/runs/%d", id), inputs: body.Inputs,
	})
	g.looks = 0
	w.WriteHeader(http.StatusNoContent)
}

func (r *githubRun) end(conclusion string) { r.Status, r.Conclusion = "completed", &conclusion }

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

// The sample that runs a workflow of GitHub Actions: the step finds the run that it has
// started by its key and ends with it, and an abort cancels the run, even before it is
// listed. The token of the preset is nowhere in the Rollout or its Events.
func TestGitHubActionsSample(t *testing.T) {
	t.Parallel()
	g := &github{listedAt: 2}
	url := e2etest.Serve(t, g)
	manifests := sample(t, "run-e2e-tests.yaml", "api.github.com", url)
	n := e2etest.NewNamespace(t)
	n.Apply(manifests[0])
	n.Apply("apiVersion: v1\nkind: Secret\nmetadata: {namespace: argo-rollouts, name: github}\nstringData: {token: " + githubToken + "}\n")
	start(t, n, map[string]string{"shop": manifests[1]})

	awaitStep(n, "shop", 1, v1alpha1.StepPluginPhaseRunning, "https://github.com/acme/shop/actions/runs/9007199254740993")
	if run := g.all(t)[0]; run.inputs["image"] != e2etest.Image("yellow") || run.inputs["namespace"] != n.Name {
		t.Errorf("the run was started with %v", run.inputs)
	}
	n.Abort("shop")
	n.AwaitAborted("shop")
	g.awaitCancelled(t, 0)

	n.Retry("shop")
	awaitStep(n, "shop", 1, v1alpha1.StepPluginPhaseRunning, "https://github.com/acme/shop/actions/runs/9007199254740994")
	g.mu.Lock()
	g.runs[1].end("success")
	g.mu.Unlock()
	n.AwaitHealthy("shop", e2etest.Image("yellow"))
	if all := g.all(t); len(all) != 2 {
		t.Errorf("%d runs, want one for each canary", len(all))
	}

	// The canary ends before the run is listed, by an abort and by promote --full.
	g.mu.Lock()
	g.listedAt = 6
	g.mu.Unlock()
	n.SetImage("shop", e2etest.Image("blue"))
	ro := awaitStep(n, "shop", 1, v1alpha1.StepPluginPhaseRunning, "have not begun yet")
	before := string(stepStatus(ro, 1, v1alpha1.StepPluginOperationRun).Status)
	n.Abort("shop")
	g.awaitCancelled(t, 2)
	n.AwaitAborted("shop")
	n.Retry("shop")
	n.AwaitRollout("shop", "the step has begun anew", func(ro *v1alpha1.Rollout) error {
		s := stepStatus(ro, 1, v1alpha1.StepPluginOperationRun)
		if s == nil || s.Phase != v1alpha1.StepPluginPhaseRunning || string(s.Status) == before || !strings.Contains(s.Message, "have not begun yet") {
			return fmt.Errorf("step 1 is %+v", s)
		}
		return nil
	})
	n.Promote("shop", "--full")
	g.awaitCancelled(t, 3)
	n.AwaitHealthy("shop", e2etest.Image("blue"))

	said := n.Kubectl("get", "rollouts,events", "-o", "yaml")
	if strings.Contains(said, githubToken) {
		t.Error("the token is in the Rollout or its Events")
	}
}
