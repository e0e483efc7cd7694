package disruptive

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/canarytest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/controllertest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// The permission to write is taken away in the middle of a canary: the split stays, an
// Event and the log say what is missing and which role to apply. When the permission is
// back, the canary goes on by itself.
func TestAccessTakenAndGiven(t *testing.T) {
	for name, take := range map[string]string{
		"binding deleted": "kubectl delete clusterrolebinding " + e2etest.PluginClusterRole,
		"verb taken":      "kubectl patch clusterrole " + e2etest.PluginClusterRole + ` --type=json -p='[{"op":"replace","path":"/rules/0/verbs","value":["get","list","watch"]}]'`,
	} {
		t.Run(name, func(t *testing.T) { testAccessTakenAndGiven(t, take) })
	}
}

func testAccessTakenAndGiven(t *testing.T, take string) {
	c := canarytest.Start(t)
	before, plugin := controllertest.Await(t), controllertest.Process(t, controllertest.PluginProgram)
	controllertest.KeepAccess(t)
	e2etest.Shell(t, take)
	controllertest.AwaitAccess(t, "patch", "-n "+c.Name, false)

	c.Promote(name)
	texts := []string{"may not patch httpscaledobjects.http.keda.sh", "ClusterRole " + e2etest.PluginClusterRole, "HTTPScaledObject " + c.Name + "/" + name}
	c.AwaitEvent("Rollout", name, "TrafficRoutingError", texts...)
	e2etest.Eventually(t, e2etest.Patience, "the warning in the controller's log", func(ctx context.Context) error {
		log, err := c.ControllerLog(ctx)
		if err != nil {
			return err
		}
		for line := range strings.Lines(log) {
			if strings.Contains(line, "[WARN]  plugin.http:") && strings.Contains(line, texts[0]) && strings.Contains(line, texts[1]) && strings.Contains(line, c.Name) {
				return nil
			}
		}
		return errors.New("no such line:\n" + e2etest.LinesWith(log, c.Name))
	})
	// The guide's command to find the error.
	if found := e2etest.Shell(t, `kubectl -n argo-rollouts logs deploy/argo-rollouts | grep -i "httpscaled\|forbidden"`); !strings.Contains(found, "forbidden") {
		t.Errorf("the guide's command shows nothing of it:\n%s", found)
	}
	c.RequireSplit(name, c.App.Split(20))

	e2etest.Shell(t, "kubectl apply -k "+e2etest.Repository(t, "deploy/rbac"))
	c.AwaitSplit(name, c.App.Split(50))
	c.AwaitPaused(name, 3)
	c.Conclude()
	if now := controllertest.Await(t); now.UID != before.UID || e2etest.Restarts(now) != e2etest.Restarts(before) || controllertest.Process(t, controllertest.PluginProgram) != plugin {
		t.Error("the controller or its plugin was restarted; the canary did not go on by itself")
	}
}

// Without the permission from the start, an Event says what is missing; once it is
// granted, a canary runs.
func TestAccessMissingFromTheStart(t *testing.T) {
	controllertest.KeepAccess(t)
	e2etest.Shell(t, "kubectl delete clusterrolebinding "+e2etest.PluginClusterRole)
	controllertest.AwaitAccess(t, "list", "-A", false)
	controllertest.Restart(t)

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

// deploy/rbac-minimal, with permissions in one namespace, is enough for a canary, also
// without --watch-namespace.
func TestLeastAccess(t *testing.T) {
	controllertest.KeepAccess(t)
	e2etest.Shell(t, "kubectl delete clusterrolebinding "+e2etest.PluginClusterRole)
	controllertest.AwaitAccess(t, "list", "-A", false)
	n := e2etest.NewNamespace(t)
	e2etest.Shell(t, "kubectl -n "+n.Name+" apply -k "+e2etest.Repository(t, "deploy/rbac-minimal"))
	controllertest.AwaitAccess(t, "patch", "-n "+n.Name, true)
	pod := controllertest.Restart(t)

	canarytest.StartIn(t, n).Finish()
	if log := controllertest.Log(t, pod); !strings.Contains(log, "no watch: each call reads the object it needs") {
		t.Errorf("the log does not say that there is no watch:\n%s", e2etest.LinesWith(log, "plugin"))
	}
}
