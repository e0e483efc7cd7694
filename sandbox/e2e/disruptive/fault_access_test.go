package disruptive

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/e2etest"
)

// keepAccess puts the plugin's permissions back when the test ends.
func keepAccess(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		if _, err := e2etest.TryShell(context.Background(), "kubectl apply -k "+e2etest.Repository(t, "deploy/rbac")); err != nil {
			t.Errorf("putting the permissions back: %v", err)
		}
	})
}

// awaitAccess waits until the API server answers whether the controller may do
// something with HTTPScaledObjects.
func awaitAccess(t *testing.T, verb, namespace string, want bool) {
	t.Helper()
	line := "kubectl auth can-i " + verb + " httpscaledobjects.http.keda.sh --as=system:serviceaccount:argo-rollouts:argo-rollouts " + namespace
	answer := "no\n"
	if want {
		answer = "yes\n"
	}
	e2etest.Eventually(t, e2etest.Patience, line+" = "+answer, func(ctx context.Context) error {
		got, err := e2etest.TryShell(ctx, line+" || true")
		if err == nil && got != answer {
			err = fmt.Errorf("it says %q", got)
		}
		return err
	})
}

// The permission to write is taken away in the middle of a canary: the split
// stays, an Event and the log say what is missing and which role to apply.
// Given back, the canary goes on by itself.
func TestAccessTakenAndGiven(t *testing.T) {
	for name, take := range map[string]string{
		"binding deleted": "kubectl delete clusterrolebinding " + e2etest.PluginClusterRole,
		"verb taken":      "kubectl patch clusterrole " + e2etest.PluginClusterRole + ` --type=json -p='[{"op":"replace","path":"/rules/0/verbs","value":["get","list","watch"]}]'`,
	} {
		t.Run(name, func(t *testing.T) { testAccessTakenAndGiven(t, take) })
	}
}

func testAccessTakenAndGiven(t *testing.T, take string) {
	c := startCanary(t)
	before, plugin := awaitController(t), one(t, pluginProgram)
	keepAccess(t)
	e2etest.Shell(t, take)
	awaitAccess(t, "patch", "-n "+c.Name, false)

	c.Promote(name)
	texts := []string{"may not patch httpscaledobjects.http.keda.sh", "ClusterRole " + e2etest.PluginClusterRole, "HTTPScaledObject " + c.Name + "/" + name}
	c.AwaitEvent("Rollout", name, "TrafficRoutingError", texts...)
	e2etest.Eventually(t, e2etest.Patience, "the error in the controller's log", func(ctx context.Context) error {
		log, err := c.ControllerLog(ctx)
		if err != nil {
			return err
		}
		for line := range strings.Lines(log) {
			if strings.Contains(line, "level=error") && strings.Contains(line, texts[0]) && strings.Contains(line, texts[1]) && strings.Contains(line, c.Name) {
				return nil
			}
		}
		return errors.New("no such line:\n" + grep(log, c.Name))
	})
	// The guide's look at it.
	if found := e2etest.Shell(t, `kubectl -n argo-rollouts logs deploy/argo-rollouts | grep -i "httpscaled\|forbidden"`); !strings.Contains(found, "forbidden") {
		t.Errorf("the guide's command shows nothing of it:\n%s", found)
	}
	c.RequireSplit(name, c.app.Split(20))

	e2etest.Shell(t, "kubectl apply -k "+e2etest.Repository(t, "deploy/rbac"))
	c.AwaitSplit(name, c.app.Split(50))
	c.AwaitPaused(name, 3)
	c.conclude()
	if now := awaitController(t); now.UID != before.UID || e2etest.Restarts(now) != e2etest.Restarts(before) || one(t, pluginProgram) != plugin {
		t.Error("the controller or its plugin was restarted; the canary did not go on by itself")
	}
}

// Without any permission from the start, and with it granted later.
func TestAccessMissingFromTheStart(t *testing.T) {
	keepAccess(t)
	e2etest.Shell(t, "kubectl delete clusterrolebinding "+e2etest.PluginClusterRole)
	awaitAccess(t, "list", "-A", false)
	restartController(t)

	n := e2etest.NewNamespace(t)
	app := e2etest.App{Name: name, Steps: "- setWeight: 20\n- pause: {}"}
	n.Apply(app.Manifest())
	n.AwaitEvent("Rollout", name, "TrafficRoutingError", "may not get httpscaledobjects.http.keda.sh", "ClusterRole "+e2etest.PluginClusterRole)

	e2etest.Shell(t, "kubectl apply -k "+e2etest.Repository(t, "deploy/rbac"))
	n.AwaitHealthy(name, e2etest.Image("blue"))
	n.SetImage(name, e2etest.Image("yellow"))
	n.AwaitSplit(name, app.Split(20))
	n.Promote(name)
	n.AwaitHealthy(name, e2etest.Image("yellow"))
	n.AwaitSplit(name, e2etest.NoSplit)
}

// deploy/rbac-minimal, rights in one namespace, is enough for a canary without
// --watch-namespace too.
func TestLeastAccess(t *testing.T) {
	keepAccess(t)
	e2etest.Shell(t, "kubectl delete clusterrolebinding "+e2etest.PluginClusterRole)
	awaitAccess(t, "list", "-A", false)
	n := e2etest.NewNamespace(t)
	e2etest.Shell(t, "kubectl -n "+n.Name+" apply -k "+e2etest.Repository(t, "deploy/rbac-minimal"))
	awaitAccess(t, "patch", "-n "+n.Name, true)
	pod := restartController(t)

	app := e2etest.App{Name: name, Steps: "- setWeight: 20\n- pause: {}\n- setWeight: 50\n- pause: {}"}
	n.Apply(app.Manifest())
	n.AwaitHealthy(name, e2etest.Image("blue"))
	c := canary{Namespace: n, app: app, recorder: n.Record(name), begun: []e2etest.Split{e2etest.NoSplit, app.Split(20)}}
	n.SetImage(name, e2etest.Image("yellow"))
	n.AwaitPaused(name, 1)
	n.AwaitSplit(name, app.Split(20))
	c.finish()
	if log := controllerLog(t, pod); !strings.Contains(log, "no watch: each call reads the object it needs") {
		t.Errorf("the log does not say that there is no watch:\n%s", grep(log, "plugin"))
	}
}
