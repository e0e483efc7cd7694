package disruptive

import (
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/canarytest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/controllertest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// The plugin is killed in the middle of a canary: the controller starts it
// again, and the canary goes on.
func TestPluginKilled(t *testing.T) {
	c := canarytest.Start(t)
	before := controllertest.Await(t)
	plugin := controllertest.Process(t, controllertest.PluginProgram)

	e2etest.KillProcess(t, plugin)
	c.RequireSplit(name, c.App.Split(20))
	c.Finish()

	controllertest.AnotherProcess(t, controllertest.PluginProgram, plugin)
	if now := controllertest.Await(t); now.UID != before.UID || e2etest.Restarts(now) != e2etest.Restarts(before) {
		t.Errorf("the controller was restarted: %s, %d times", now.Name, e2etest.Restarts(now))
	}
}

// The plugin is killed while the controller carries out a change.
func TestPluginKilledAtWork(t *testing.T) {
	c := canarytest.Start(t)
	for range 5 {
		plugin := controllertest.Process(t, controllertest.PluginProgram)
		e2etest.KillProcess(t, plugin)
		// A reconcile, which starts the plugin anew.
		c.Reconcile(name)
		controllertest.AnotherProcess(t, controllertest.PluginProgram, plugin)
	}
	c.Promote(name)
	e2etest.KillProcess(t, controllertest.Process(t, controllertest.PluginProgram))
	c.AwaitSplit(name, c.App.Split(50))
	c.AwaitPaused(name, 3)
	c.Conclude()
}

// The controller is killed, so that it cannot end its plugin; the node starts it again
// in the same container, over the same disk. The old plugin does not hinder the new
// one, and the canary goes on.
func TestControllerKilled(t *testing.T) {
	c := canarytest.Start(t)
	before := controllertest.Await(t)
	controller, plugin := controllertest.Process(t, controllertest.ControllerProgram), controllertest.Process(t, controllertest.PluginProgram)

	e2etest.AllowRestarts(t, e2etest.ControllerNamespace, before.Name)
	e2etest.KillProcess(t, controller)
	e2etest.AwaitProcessEnd(t, plugin)
	controllertest.AnotherProcess(t, controllertest.ControllerProgram, controller)
	controllertest.AnotherProcess(t, controllertest.PluginProgram, plugin)
	c.RequireSplit(name, c.App.Split(20))
	c.Finish()

	now := controllertest.Await(t)
	if now.UID != before.UID || e2etest.Restarts(now) != e2etest.Restarts(before)+1 {
		t.Errorf("the controller should have been restarted once, in its pod %s: now it is %s, %d times", before.Name, now.Name, e2etest.Restarts(now)-e2etest.Restarts(before))
	}
	if log := controllertest.Log(t, now); strings.Contains(log, "text file busy") {
		t.Errorf("the plugin that the killed controller left was in the way of the next:\n%s", e2etest.LinesWith(log, "plugin"))
	}
}
