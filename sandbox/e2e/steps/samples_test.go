package steps

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// sample returns the manifests of a file in examples/steps, with https://host replaced by a
// URL where that is not empty.
func sample(t *testing.T, file, host, url string) []string {
	t.Helper()
	text, err := os.ReadFile(e2etest.Repository(t, "examples", "steps", file))
	if err != nil {
		t.Fatal(err)
	}
	manifests := string(text)
	if host != "" {
		authority := strings.TrimPrefix(url, "http://")
		manifests = strings.NewReplacer("https://"+host, url, "["+host+"]", `["`+authority+`"]`).Replace(manifests)
		if manifests == string(text) || strings.Contains(manifests, host) {
			t.Fatalf("%s does not name %s as the test takes it:\n%s", file, host, manifests)
		}
	}
	return strings.Split(manifests, "\n---\n")
}

// approvals is a stand-in for a system in which changes are approved, by the key of a
// step. It answers 404 for a change that is not decided yet.
type approvals struct {
	mu      sync.Mutex
	states  map[string]string // by key
	refused []string
}

func (a *approvals) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key, found := strings.CutPrefix(r.URL.Path, "/api/changes/")
	state := a.states[key]
	if !found || key == "" || r.Method != http.MethodGet {
		a.refused = append(a.refused, r.Method+" "+r.URL.Path)
	}
	if state == "" {
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]string{"state": state})
}

func (a *approvals) decide(key, state string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.states[key] = state
}

// The sample of a chat: it gets one message, and the canary goes on. The Secret's URL is
// nowhere in the Rollout or its Events.
func TestChatSample(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var posted []string
	url := e2etest.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		posted = append(posted, r.Method+" "+r.URL.Path+" "+string(body))
	}))
	manifests := sample(t, "chat.yaml", "hooks.slack.com", url)
	n := e2etest.NewNamespace(t)
	n.Apply(manifests[0])
	n.Apply("apiVersion: v1\nkind: Secret\nmetadata: {namespace: argo-rollouts, name: chat}\nstringData: {url: " + url + "/services/hidden}\n")
	start(t, n, map[string]string{"web": manifests[1]})
	n.AwaitHealthy("web", e2etest.Image("yellow"))
	mu.Lock()
	defer mu.Unlock()
	want := `POST /services/hidden {"text":"` + n.Name + `/web: the canary of revision 2 has begun"}`
	if len(posted) != 1 || posted[0] != want {
		t.Errorf("posted %q, want %s", posted, want)
	}
	if said := n.Kubectl("get", "rollouts,events", "-o", "yaml"); strings.Contains(said, "services/hidden") {
		t.Error("the URL of the Secret is in the Rollout or its Events")
	}
}

// The sample of an approval: the step's message says where to approve the change, and
// the decision made there lets the canary go on or aborts it.
func TestApprovalSample(t *testing.T) {
	t.Parallel()
	a := &approvals{states: map[string]string{}}
	url := e2etest.Serve(t, a)
	manifests := sample(t, "approval.yaml", "approvals.example.com", url)
	e2etest.NewNamespace(t).Apply(manifests[0]) // the preset, in the controller's namespace
	for state, end := range map[string]func(*e2etest.Namespace){
		"approved": func(n *e2etest.Namespace) { n.AwaitHealthy("billing", e2etest.Image("yellow")) },
		"rejected": func(n *e2etest.Namespace) { n.AwaitAborted("billing") },
	} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			n := e2etest.NewNamespace(t)
			start(t, n, map[string]string{"billing": manifests[1]})
			before := "approve " + n.Name + "/billing at " + url + "/changes/"
			ro := n.AwaitStep("billing", 1, v1alpha1.StepPluginPhaseRunning, before)
			_, rest, _ := strings.Cut(stepStatus(ro, 1, v1alpha1.StepPluginOperationRun).Message, before)
			key := rest[:strings.IndexFunc(rest+" ", func(r rune) bool { return !strings.ContainsRune("0123456789abcdef", r) })]
			n.AwaitEvent("Rollout", "billing", "StepWaiting", before+key)
			a.decide(key, state)
			end(n)
			a.mu.Lock()
			defer a.mu.Unlock()
			if len(a.refused) > 0 {
				t.Errorf("requests %q", a.refused)
			}
		})
	}
}

// The sample of smoke tests: curl requests the path in the Rollout's annotation from
// the canary's Service, and its outcome is the step's.
func TestSmokeTestsSample(t *testing.T) {
	t.Parallel()
	manifests := sample(t, "smoke-tests.yaml", "", "")
	e2etest.NewNamespace(t).Apply(manifests[0]) // the preset, in the controller's namespace
	const path = "acme.example.com/smoke-path: "
	for name, tc := range map[string]struct {
		path string
		end  func(*e2etest.Namespace)
	}{
		"passed": {"color", func(n *e2etest.Namespace) { n.AwaitHealthy("api", e2etest.Image("yellow")) }},
		"failed": {"none", func(n *e2etest.Namespace) {
			n.AwaitAborted("api")
			n.AwaitStep("api", 1, v1alpha1.StepPluginPhaseFailed, "exit code 22", "curl: (22) The requested URL returned error: 404")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := e2etest.NewNamespace(t)
			n.Apply(strings.Join(manifests[1:3], "\n---\n"))
			start(t, n, map[string]string{"api": strings.Replace(manifests[3], path+"color", path+tc.path, 1)})
			tc.end(n)
			made, err := jobs(t.Context(), n, "api")
			if err != nil || len(made) != 1 {
				t.Fatalf("%d Jobs, want 1: %v", len(made), err)
			}
			args := made[0].Spec.Template.Spec.Containers[0].Args
			if last := args[len(args)-1]; last != "http://$(ROLLOUT_CANARY_SERVICE)/"+tc.path {
				t.Errorf("curl is given %q", last)
			}
		})
	}
}

// The sample of hello world: the words are in the log of the step's Job.
func TestHelloWorldSample(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	name := startSample(t, n, sample(t, "hello-world.yaml", "", ""), "")
	n.AwaitHealthy(name, e2etest.Image("yellow"))
	made, err := jobs(t.Context(), n, name)
	if err != nil || len(made) != 1 {
		t.Fatalf("%d Jobs, want 1: %v", len(made), err)
	}
	if said := n.Kubectl("logs", "job/"+made[0].Name); said != "hello world\n" {
		t.Errorf("the Job has said %q", said)
	}
}

// The sample of Rollouts that go together: both are promoted; when one is aborted, both roll
// back.
func TestBarrierSample(t *testing.T) {
	t.Parallel()
	manifests := sample(t, "barrier.yaml", "", "")
	n := e2etest.NewNamespace(t)
	n.Apply(manifests[0]) // the preset, in the controller's namespace
	names := []string{"frontend", "backend"}
	start(t, n, map[string]string{names[0]: manifests[1], names[1]: manifests[2]})
	for i, name := range names {
		n.AwaitHealthy(name, e2etest.Image("yellow"))
		n.AwaitStep(name, 2, v1alpha1.StepPluginPhaseSuccessful, names[1-i])
	}
	for _, name := range names {
		n.SetImage(name, e2etest.Image("green"))
	}
	n.AwaitPaused("backend", 1)
	n.Abort("backend")
	for _, name := range names {
		n.AwaitAborted(name)
	}
	n.AwaitStep("frontend", 2, v1alpha1.StepPluginPhaseFailed, "backend")
}
