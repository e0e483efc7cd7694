package e2e

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// The plugin's lines keep their level in the controller's log. Each change of a split is
// one line at info, with the Rollout, the HTTPScaledObject, the old and the new split and
// the duration. A reconcile that changes nothing adds no line.
func TestLogOfChanges(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	app := e2etest.App{Steps: "- setWeight: 20\n- pause: {}"}
	n.Apply(app.Manifest())
	n.AwaitHealthy("app", e2etest.Image("blue"))
	n.SetImage("app", e2etest.Image("green"))
	n.AwaitPaused("app", 1)
	n.AwaitSplit("app", app.Split(20))

	lines := func(part string) []string {
		log, err := n.ControllerLog(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for line := range strings.Lines(log) {
			if strings.Contains(line, n.Name) && strings.Contains(line, part) {
				found = append(found, strings.TrimSpace(line))
			}
		}
		return found
	}
	reconciles := func() int { return len(lines("Reconciliation completed")) }
	plugin := func(want int) []string {
		t.Helper()
		found := lines("plugin.http:")
		if len(found) != want {
			t.Fatalf("%d lines of the plugin, want %d:\n%s", len(found), want, strings.Join(found, "\n"))
		}
		return found
	}
	var first []string
	e2etest.Eventually(t, e2etest.Patience, "the line of the first change", func(context.Context) error {
		if first = lines("split changed"); len(first) == 0 {
			return fmt.Errorf("no such line about %s", n.Name)
		}
		return nil
	})
	plugin(1)
	if !regexp.MustCompile(`^\S+ \[INFO\]  plugin\.http: split changed: `).MatchString(first[0]) {
		t.Errorf("not at info: %s", first[0])
	}
	for _, part := range []string{
		"rollout=" + n.Name + "/app", "httpScaledObject=" + n.Name + "/app", "from=none", `to="app-stable=80,app-canary=20"`, "took=",
	} {
		if !strings.Contains(first[0], part) {
			t.Errorf("no %s in: %s", part, first[0])
		}
	}

	for range 5 {
		before := reconciles()
		n.Reconcile("app")
		e2etest.Eventually(t, e2etest.Patience, "another reconcile", func(context.Context) error {
			if now := reconciles(); now <= before {
				return fmt.Errorf("there have been %d", now)
			}
			return nil
		})
	}
	plugin(1)

	n.Abort("app")
	n.AwaitSplit("app", e2etest.NoSplit)
	n.AwaitAborted("app")
	if last := plugin(2)[1]; !strings.Contains(last, "[INFO]") || !strings.Contains(last, `from="app-stable=80,app-canary=20"`) || !strings.Contains(last, "to=none") {
		t.Errorf("the line of the abort: %s", last)
	}
}
