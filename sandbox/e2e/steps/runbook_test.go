package steps

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

const (
	rundeckToken = "rundeck-token-of-the-test"
	rundeckJob   = "/api/40/job/3b6c19f6-41ee-475f-8fd0-8f1a26f27a9a"
)

// rundeck is a stand-in for the part of Rundeck's API (version 40) that the sample uses: it runs
// a job, lists and shows its executions, and aborts them.
type rundeck struct {
	standIn
	executions []*rundeckExecution
}

type rundeckExecution struct {
	ID        int    `json:"id"`
	Permalink string `json:"permalink"`
	Status    string `json:"status"`
	Job       struct {
		Options map[string]string `json:"options"`
	} `json:"job"`
}

func (d *rundeck) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var found *rundeckExecution
	id, abort := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/api/40/execution/"), "/abort")
	for _, e := range d.executions {
		if id == fmt.Sprint(e.ID) {
			found = e
		}
	}
	switch {
	case r.Header.Get("X-Rundeck-Auth-Token") != rundeckToken || r.Header.Get("Accept") != "application/json":
		d.refuse(w, r, http.StatusForbidden, "api.error.item.unauthorized")
	case r.Method == http.MethodGet && r.URL.Path == rundeckJob+"/executions" && r.URL.Query().Get("max") == "50":
		_ = json.NewEncoder(w).Encode(map[string]any{
			"paging": map[string]any{"total": len(d.executions)}, "executions": append([]*rundeckExecution{}, d.executions...),
		})
	case r.Method == http.MethodPost && r.URL.Path == rundeckJob+"/run":
		var body struct{ Options map[string]string }
		if err := readJSON(r, &body); err != nil || len(body.Options) != 3 || body.Options["key"] == "" {
			d.refuse(w, r, http.StatusBadRequest, "api.error.job.options-invalid: %v: %v", body.Options, err)
			return
		}
		e := &rundeckExecution{ID: len(d.executions) + 1, Status: "running"}
		e.Permalink, e.Job.Options = fmt.Sprintf("https://rundeck.example.com/project/shop/execution/show/%d", e.ID), body.Options
		d.executions = append(d.executions, e)
		d.answer(w, http.StatusOK, e)
	case found != nil && r.Method == http.MethodGet && !abort:
		_ = json.NewEncoder(w).Encode(found)
	case found != nil && r.Method == http.MethodPost && abort:
		found.Status = "aborted"
		d.answer(w, http.StatusOK, map[string]any{"abort": map[string]any{"status": "pending"}, "execution": found})
	default:
		d.refuse(w, r, http.StatusNotFound, "api.error.item.doesnotexist")
	}
}

func (d *rundeck) statuses() (statuses []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.executions {
		statuses = append(statuses, e.Status)
	}
	return statuses
}

// end ends the last execution.
func (d *rundeck) end(status string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.executions[len(d.executions)-1].Status = status
}

// The sample of a runbook: it is started, waited for, and stopped when the canary is aborted. A
// run whose start was not answered is found by its key. One that fails aborts the canary.
func TestRunbookSample(t *testing.T) {
	t.Parallel()
	d, n := &rundeck{}, e2etest.NewNamespace(t)
	manifests := sample(t, "runbook.yaml", "rundeck.example.com", e2etest.Serve(t, d))
	// A shorter timeout has an unanswered start made again sooner.
	name := startSample(t, n, manifests, "name: rundeck}\nstringData: {token: "+rundeckToken+"}", "{use: runbook}", "{use: runbook, timeout: 2m, interval: 11s}")
	awaitRun := func(id int) {
		t.Helper()
		n.AwaitStep(name, 1, v1alpha1.StepPluginPhaseRunning, fmt.Sprintf("https://rundeck.example.com/project/shop/execution/show/%d", id))
	}

	awaitRun(1)
	d.mu.Lock()
	if options := d.executions[0].Job.Options; options["image"] != e2etest.Image("yellow") || options["namespace"] != n.Name {
		t.Errorf("the runbook was started with %v", options)
	}
	d.mu.Unlock()
	n.Abort(name)
	n.AwaitAborted(name)
	awaitTexts(t, "the runbook is stopped", d.statuses, "aborted")

	d.mu.Lock()
	d.loseAnswer = true
	d.mu.Unlock()
	n.Retry(name)
	awaitRun(2)
	d.end("succeeded")
	n.AwaitHealthy(name, e2etest.Image("yellow"))

	n.SetImage(name, e2etest.Image("green"))
	awaitRun(3)
	d.end("timedout")
	n.AwaitAborted(name)
	awaitTexts(t, "each canary has had one run", d.statuses, "aborted", "succeeded", "timedout")

	d.requireNoneRefused(t)
	requireHidden(t, n, rundeckToken)
}
