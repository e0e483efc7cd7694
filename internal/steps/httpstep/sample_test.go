package httpstep

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// presetOfSample returns the preset of examples/steps/run-e2e-tests.yaml, with another
// URL instead of the GitHub API's.
func presetOfSample(t *testing.T, url string) preset {
	t.Helper()
	text, err := os.ReadFile("../../../examples/steps/run-e2e-tests.yaml")
	if err != nil {
		t.Fatal(err)
	}
	manifest, _, _ := strings.Cut(string(text), "\n---\n")
	manifest = strings.NewReplacer("https://api.github.com", url, "[api.github.com]", `["`+strings.TrimPrefix(url, "http://")+`"]`).Replace(manifest)
	var object corev1.ConfigMap
	if err := yaml.Unmarshal([]byte(manifest), &object); err != nil {
		t.Fatal(err)
	}
	read, err := steps.ReadPreset([]byte(object.Data[steps.PresetKey]))
	if err != nil {
		t.Fatal(err)
	}
	return preset(*read)
}

// github has one workflow, whose run is listed from look number listedAt on.
type github struct {
	mu sync.Mutex
	// key is the key of the run, empty before it is started.
	key              string
	looks, listedAt  int
	cancelled, wrong int
}

func (g *github) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case strings.HasSuffix(r.URL.Path, "/dispatches"):
		var body struct{ Inputs map[string]string }
		_ = json.NewDecoder(r.Body).Decode(&body)
		g.key = body.Inputs["key"]
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodGet && g.key != "":
		g.looks++
		if g.looks >= g.listedAt {
			fmt.Fprintf(w, `{"workflow_runs": [{"id": 17, "display_title": %q, "status": "queued", "conclusion": null, "html_url": "https://ci.example.com/17"}]}`, g.key)
			return
		}
		fmt.Fprint(w, `{"workflow_runs": []}`)
	case r.Method == http.MethodGet:
		fmt.Fprint(w, `{"workflow_runs": []}`)
	case r.URL.Path == "/repos/acme/shop/actions/runs/17/cancel":
		g.cancelled++
		w.WriteHeader(http.StatusAccepted)
	default:
		g.wrong++
		http.Error(w, "Not Found", http.StatusNotFound)
	}
}

// counts returns the number of cancels of the run, and of requests for what does not
// exist.
func (g *github) counts() (cancelled, wrong int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cancelled, g.wrong
}

const tokenOfSample = "github-token"

// newSampleHost has a Rollout with the sample's preset and a configuration of its own.
func newSampleHost(t *testing.T, g *github, config string) (*host, *outside) {
	t.Helper()
	o := newOutside(t, g.ServeHTTP)
	h := newHost(t, o, config)
	h.opts.AllowHosts, h.opts.SecretsNamespace = nil, "argo-rollouts"
	h.ro.Spec.Template.Spec.Containers[0].Name = "shop"
	h.preset = presetOfSample(t, o.URL)
	h.restart()
	h.putSecret("argo-rollouts", "github", map[string]string{"token": tokenOfSample})
	return h, o
}
