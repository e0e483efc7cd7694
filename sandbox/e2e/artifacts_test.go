package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
	failing := &failingTest{TB: t}
	n := e2etest.NewNamespace(failing)
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
	failing.end()
	if len(failing.log) != 1 || strings.Contains(failing.log[0], "\n") {
		t.Fatalf("a failed test says %q besides its reason: want one line that names a directory", failing.log)
	}
	_, dir, _ := strings.Cut(failing.log[0], " are in ")
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(dir)) })
	if _, err := os.Stat(filepath.Join(dir, "rollouts.yaml")); err != nil {
		t.Errorf("a failed test says %q, but has kept nothing there: %v", failing.log[0], err)
	}
}

// failingTest is a test that has failed, and keeps what it says.
type failingTest struct {
	testing.TB
	atEnd []func()
	log   []string
}

func (f *failingTest) Failed() bool               { return true }
func (f *failingTest) Cleanup(atEnd func())       { f.atEnd = append(f.atEnd, atEnd) }
func (f *failingTest) Log(args ...any)            { f.log = append(f.log, fmt.Sprint(args...)) }
func (f *failingTest) Logf(s string, args ...any) { f.Log(fmt.Sprintf(s, args...)) }

func (f *failingTest) end() {
	for _, atEnd := range slices.Backward(f.atEnd) {
		atEnd()
	}
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
		"logs/argo-rollouts.log": "Rollout updated",
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
