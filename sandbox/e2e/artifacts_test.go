package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// The artifacts that are kept of a namespace when its test fails include the objects,
// Events and logs that one needs first. Controllers may still be writing some of these,
// and a busy machine may answer a request too late, so what is missing is looked for
// again.
func TestArtifactsOfANamespace(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	app := e2etest.App{Name: "app", Steps: "- setWeight: 20\n- pause: {}"}
	n.Apply(app.Manifest())
	n.AwaitHealthy("app", e2etest.Image("blue"))
	n.SetImage("app", e2etest.Image("yellow"))
	n.AwaitPaused("app", 1)
	n.RequireSplit("app", app.Split(20))

	e2etest.Eventually(t, e2etest.Patience, "all artifacts of the namespace", func(context.Context) error {
		err := keepAll(n, t.TempDir())
		if err != nil {
			t.Log(err)
		}
		return err
	})
}

// keepAll keeps the artifacts of a namespace with an App, and returns what is missing.
func keepAll(n *e2etest.Namespace, dir string) error {
	all := n.Keep(dir)
	for file, text := range map[string]string{
		"rollouts.yaml":          "setWeight: 20",
		"httpscaledobjects.yaml": "http.kedify.io/weighted-backends",
		"endpointslices.yaml":    "kubernetes.io/service-name: app-canary",
		"analysisruns.yaml":      "kind: List",
		"events.yaml":            "reason: RolloutUpdated",
		"pods.yaml":              "rollouts-pod-template-hash",
	} {
		got, err := os.ReadFile(filepath.Join(dir, file))
		if err == nil && !strings.Contains(string(got), text) {
			err = fmt.Errorf("%s does not have %q:\n%.2000s", file, text, got)
		}
		all = errors.Join(all, err)
	}
	logs, err := filepath.Glob(filepath.Join(dir, "logs", n.Name+"_app-*.log"))
	if err == nil && len(logs) < 2 {
		err = fmt.Errorf("logs of the application's two pods: %q", logs)
	}
	return errors.Join(all, err)
}
