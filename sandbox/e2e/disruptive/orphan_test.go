package disruptive

import (
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/e2etest"
)

// A Rollout is deleted while there is no controller: the next one's plugin takes
// its split off.
func TestRolloutDeletedWhileTheControllerIsAway(t *testing.T) {
	c := startCanary(t)
	// A controller starts its plugin for the first Rollout that uses it.
	other := e2etest.App{Name: "other"}
	c.Apply(other.Manifest())
	c.AwaitHealthy("other", e2etest.Image("blue"))

	e2etest.Shell(t, "kubectl -n argo-rollouts scale deploy/argo-rollouts --replicas=0")
	e2etest.Shell(t, "kubectl -n argo-rollouts wait pod --all --for=delete --timeout=110s")
	c.Kubectl("delete", "rollout", name, "--wait=true")
	c.RequireSplit(name, c.app.Split(20))
	e2etest.Shell(t, "kubectl -n argo-rollouts scale deploy/argo-rollouts --replicas=1")
	e2etest.Shell(t, restarted)
	awaitController(t)
	c.AwaitSplitWithin(time.Minute, name, e2etest.NoSplit)
	c.recorder.Require(append(c.begun, e2etest.NoSplit)...)
}

// The plugin is killed in the middle of a pause: the next one puts a split back
// that something else removes.
func TestSelfHealingAfterThePluginWasKilled(t *testing.T) {
	c := startCanary(t)
	plugin := one(t, pluginProgram)
	kill(t, plugin)
	// A reconcile, which starts the plugin anew and tells it of the weight.
	c.Reconcile(name)
	another(t, pluginProgram, plugin)
	c.Annotate(name, map[string]*string{e2etest.SplitAnnotation: nil, e2etest.OwnerAnnotation: nil})
	c.AwaitSplitWithin(time.Minute, name, c.app.Split(20))
	c.begun = append(c.begun, e2etest.NoSplit, c.app.Split(20))
	c.finish()
}
