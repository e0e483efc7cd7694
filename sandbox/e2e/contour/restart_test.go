package contour

import (
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/controllertest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// pluginProgram is the plugin as the node runs it in the controller's container.
const pluginProgram = "/home/argo-rollouts/plugin-bin/" + pluginName

// The plugin is killed in the middle of a canary, and later the controller is replaced:
// the requests' shares stay, no request is lost, and in the end the route is as it was
// applied, since the plugin stores all its state on it. The test does not run in
// parallel with others, which need the controller.
func TestPluginKilledAndControllerReplaced(t *testing.T) {
	c := startCanary(t, e2etest.App{Steps: twoPauses}, changed(t, routeManifest, "weight: 100", "weight: 1"))
	c.awaitServed(t)
	before := routeOf(t, c.Namespace, name)
	record := recordWeights(t, c.Namespace, name)
	load := startLoad(t, c.proxy, c.host)
	c.SetImage(name, e2etest.Image("yellow"))
	c.AwaitPaused(name, 1)
	load.AwaitShareWithin("yellow", 20, margin)

	plugin := controllertest.Process(t, pluginProgram)
	e2etest.KillProcess(t, plugin)
	e2etest.AwaitProcessEnd(t, plugin)
	c.Promote(name)
	c.AwaitPaused(name, 3)
	plugin = controllertest.AnotherProcess(t, pluginProgram, plugin)
	requireWeights(t, c.Namespace, name, "40/60")
	load.AwaitShareWithin("yellow", 60, margin)

	controllertest.Restart(t)
	controllertest.AnotherProcess(t, pluginProgram, plugin)
	requireWeights(t, c.Namespace, name, "40/60")
	c.Promote(name)
	c.AwaitHealthy(name, e2etest.Image("yellow"))
	awaitRest(t, c.Namespace, before)
	awaitOnly(t, load, "yellow")
	load.Finish(nil, "blue", "yellow")
	record.requireWeights("1/0", "80/20", "40/60", "0/100", "1/0")
	requireWrites(t, c.Namespace, name, "patch", 4)
}
