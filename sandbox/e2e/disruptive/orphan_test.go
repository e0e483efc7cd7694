package disruptive

import (
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/canarytest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/controllertest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// A Rollout is deleted while there is no controller: the plugin of the next controller
// removes its split.
func TestRolloutDeletedWhileTheControllerIsAway(t *testing.T) {
	c := canarytest.Start(t)
	// A controller starts its plugin for the first Rollout that uses it.
	other := e2etest.App{Name: "other"}
	c.Apply(other.Manifest())
	c.AwaitHealthy("other", e2etest.Image("blue"))

	controllertest.Scale(t, 0)
	c.Kubectl("delete", "rollout", name, "--wait=true")
	c.RequireSplit(name, c.App.Split(20))
	controllertest.Scale(t, 1)
	c.AwaitSplitWithin(time.Minute, name, e2etest.NoSplit)
	c.Recorder.Require(append(c.Begun, e2etest.NoSplit)...)
}

// The plugin is killed in the middle of a pause: its successor restores a split that
// something else removes.
func TestSelfHealingAfterThePluginWasKilled(t *testing.T) {
	c := canarytest.Start(t)
	plugin := controllertest.Process(t, controllertest.PluginProgram)
	e2etest.KillProcess(t, plugin)
	// A reconcile, which starts the plugin anew and tells it of the weight.
	c.Reconcile(name)
	controllertest.AnotherProcess(t, controllertest.PluginProgram, plugin)
	c.Annotate(name, map[string]*string{e2etest.SplitAnnotation: nil, e2etest.OwnerAnnotation: nil})
	c.AwaitSplitWithin(time.Minute, name, c.App.Split(20))
	c.Begun = append(c.Begun, e2etest.NoSplit, c.App.Split(20))
	c.Finish()
}
