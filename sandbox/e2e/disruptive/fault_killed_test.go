package disruptive

import (
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/e2etest"
)

// The plugin is killed in the middle of a canary: the controller starts it
// again, and the canary goes on.
func TestPluginKilled(t *testing.T) {
	c := startCanary(t)
	before := awaitController(t)
	plugin := one(t, pluginProgram)

	kill(t, plugin)
	c.RequireSplit(name, c.app.Split(20))
	c.finish()

	another(t, pluginProgram, plugin)
	if now := awaitController(t); now.UID != before.UID || e2etest.Restarts(now) != e2etest.Restarts(before) {
		t.Errorf("the controller was restarted: %s, %d times", now.Name, e2etest.Restarts(now))
	}
}

// The plugin is killed while the controller carries out a change.
func TestPluginKilledAtWork(t *testing.T) {
	c := startCanary(t)
	for range 5 {
		plugin := one(t, pluginProgram)
		kill(t, plugin)
		// A reconcile, which starts the plugin anew.
		c.Reconcile(name)
		another(t, pluginProgram, plugin)
	}
	c.Promote(name)
	kill(t, one(t, pluginProgram))
	c.AwaitSplit(name, c.app.Split(50))
	c.AwaitPaused(name, 3)
	c.conclude()
}

// The controller is killed, so that nobody ends its plugin; the node starts it
// again in the same container, over the same disk. Its plugin is in nobody's
// way, and the canary goes on.
func TestControllerKilled(t *testing.T) {
	c := startCanary(t)
	before := awaitController(t)
	controller, plugin := one(t, controllerProgram), one(t, pluginProgram)

	e2etest.AllowRestarts(t, e2etest.ControllerNamespace, before.Name)
	kill(t, controller)
	awaitEnd(t, plugin)
	another(t, controllerProgram, controller)
	another(t, pluginProgram, plugin)
	c.RequireSplit(name, c.app.Split(20))
	c.finish()

	now := awaitController(t)
	if now.UID != before.UID || e2etest.Restarts(now) != e2etest.Restarts(before)+1 {
		t.Errorf("the controller should have been restarted once, in its pod %s: now it is %s, %d times", before.Name, now.Name, e2etest.Restarts(now)-e2etest.Restarts(before))
	}
	if log := controllerLog(t, now); strings.Contains(log, "text file busy") {
		t.Errorf("the plugin that the killed controller left was in the way of the next:\n%s", grep(log, "plugin"))
	}
}

// grep returns the lines of a text that hold a word.
func grep(text, word string) string {
	var found strings.Builder
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			found.WriteString(line)
		}
	}
	return found.String()
}
