package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/e2etest"
)

// The artifacts that are kept of a namespace when its test fails include the objects,
// Events and logs that one needs first.
func TestArtifactsOfANamespace(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	app := e2etest.App{Name: "app", Steps: "- setWeight: 20\n- pause: {}"}
	n.Apply(app.Manifest())
	n.AwaitHealthy("app", e2etest.Image("blue"))
	n.SetImage("app", e2etest.Image("yellow"))
	n.AwaitSplit("app", app.Split(20))

	dir := t.TempDir()
	if err := n.Keep(dir); err != nil {
		t.Error(err)
	}
	for file, text := range map[string]string{
		"rollouts.yaml":          "setWeight: 20",
		"httpscaledobjects.yaml": "http.kedify.io/weighted-backends",
		"endpointslices.yaml":    "kubernetes.io/service-name: app-canary",
		"analysisruns.yaml":      "kind: List",
		"events.yaml":            "reason: RolloutUpdated",
		"pods.yaml":              "rollouts-pod-template-hash",
	} {
		got, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil || !strings.Contains(string(got), text) {
			t.Errorf("%s does not have %q (%v):\n%.2000s", file, text, err, got)
		}
	}
	logs, err := filepath.Glob(filepath.Join(dir, "logs", n.Name+"_app-*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("logs of the application: %v (%v)", logs, err)
	}
	if text, err := os.ReadFile(logs[0]); err != nil || len(text) == 0 {
		t.Errorf("%s is empty (%v)", logs[0], err)
	}
}
