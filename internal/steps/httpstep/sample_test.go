package httpstep

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// github has one workflow, whose run is listed from look number listedAt on. A dispatch tells
// the run's id, unless old is true, as for an older Enterprise Server. Runs have ended if
// finished is true.
type github struct {
	mu            sync.Mutex
	old, finished bool
	// keys are those of the runs, which have the ids 17, 18 and so on.
	keys            []string
	looks, listedAt int
	// cancelled are the ids of the runs that were cancelled, wrong counts requests for what
	// there is not.
	cancelled []string
	wrong     int
}

func (g *github) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, "/repos/acme/shop/actions")
	id, isRun := strings.CutPrefix(path, "/runs/")
	id, isCancel := strings.CutSuffix(id, "/cancel")
	exists := false
	for i := range g.keys {
		exists = exists || id == fmt.Sprint(17+i)
	}
	switch {
	case r.Method == http.MethodPost && path == "/workflows/e2e.yaml/dispatches":
		var body struct {
			Details bool `json:"return_run_details"`
			Inputs  map[string]string
		}
		_ = json.NewDecoder(r.Body).Decode(&body)
		g.keys = append(g.keys, body.Inputs["key"])
		if g.old {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		fmt.Fprintf(w, `{"workflow_run_id": %d, "html_url": "https://ci.example.com/run"}`, 16+len(g.keys))
	case r.Method == http.MethodGet && path == "/workflows/e2e.yaml/runs":
		runs := []string{}
		if g.looks++; g.looks >= g.listedAt {
			for i, key := range g.keys {
				runs = append(runs, fmt.Sprintf(`{"id": %d, "display_title": %q, "status": "queued", "conclusion": null, "html_url": "https://ci.example.com/run"}`, 17+i, key))
			}
		}
		fmt.Fprintf(w, `{"workflow_runs": [%s]}`, strings.Join(runs, ", "))
	case r.Method == http.MethodGet && isRun && exists:
		if g.finished {
			fmt.Fprint(w, `{"status": "completed", "conclusion": "success"}`)
			return
		}
		fmt.Fprint(w, `{"status": "in_progress", "conclusion": null}`)
	case r.Method == http.MethodPost && isCancel && exists:
		g.cancelled = append(g.cancelled, id)
		w.WriteHeader(http.StatusAccepted)
	default:
		g.wrong++
		http.Error(w, "Not Found", http.StatusNotFound)
	}
}

// state returns the number of runs, the ids of those that were cancelled, and the number of
// requests for what there is not.
func (g *github) state() (runs int, cancelled string, wrong int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.keys), strings.Join(g.cancelled, " "), g.wrong
}

// newSampleHost has a Rollout with the preset of examples/steps/github-actions.yaml.
func newSampleHost(t *testing.T, g *github) *host {
	t.Helper()
	text, err := os.ReadFile("../../../examples/steps/github-actions.yaml")
	if err != nil {
		t.Fatal(err)
	}
	o := newOutside(t, g.ServeHTTP)
	manifest, _, _ := strings.Cut(string(text), "\n---\n")
	manifest = strings.NewReplacer("https://api.github.com", o.URL, "[api.github.com]", `["`+strings.TrimPrefix(o.URL, "http://")+`"]`).Replace(manifest)
	var object corev1.ConfigMap
	if err := yaml.Unmarshal([]byte(manifest), &object); err != nil {
		t.Fatal(err)
	}
	read, err := steps.ReadPreset([]byte(object.Data[steps.PresetKey]))
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(t, o, `{}`)
	h.opts.AllowHosts, h.opts.SecretsNamespace = nil, "argo-rollouts"
	h.ro.Spec.Template.Spec.Containers[0].Name = "shop"
	h.preset = preset(*read)
	h.restart()
	h.putSecret("argo-rollouts", "github", map[string]string{"token": "github-token"})
	return h
}

// The sample knows its run by its id, and needs no list.
func TestTheSample(t *testing.T) {
	g := &github{listedAt: 1000, finished: true}
	h := newSampleHost(t, g)
	h.run()
	h.require(types.PhaseRunning, "https://ci.example.com/run")
	if h.until(2); h.outputs()["run"] != "17" {
		t.Errorf("got outputs %q", h.outputs())
	}
	h.require(types.PhaseSuccessful)
	g = &github{listedAt: 1000}
	h = newSampleHost(t, g)
	h.run()
	_, _ = h.plugin.Abort(h.ro, h.call())
	eventually(t, "the run is cancelled", func() bool { _, cancelled, _ := g.state(); return cancelled == "17" })
	if runs, _, wrong := g.state(); runs != 1 || wrong > 0 {
		t.Errorf("%d runs, want 1, and %d requests for what there is not", runs, wrong)
	}
	// After a crash the run that is listed is found.
	g = &github{finished: true}
	h = newSampleHost(t, g)
	h.runUnstored()
	h.restart()
	h.until(3)
	h.require(types.PhaseSuccessful)
	if runs, _, _ := g.state(); runs != 1 {
		t.Errorf("%d runs after a crash", runs)
	}
}
