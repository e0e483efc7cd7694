package contour

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/controllertest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// A Rollout uses two registrations of the router, each with a route of its own: each
// keeps its weight, and takes one write a weight. When the Rollout does not have the
// second registration any more, the first takes its route over: it goes back to what its
// user had.
func TestTwoRegistrations(t *testing.T) {
	onlyContour(t, "no Gateway makes a difference to it")
	plugins := controllertest.KeepConfig(t)
	const second = "second/gatewayAPI"
	controllertest.SetPlugins(t, plugins+entryOf(t, plugins, pluginName, second))
	controllertest.Restart(t)

	n := e2etest.NewNamespace(t)
	route := fill(routeManifest, n.Name+".test")
	other := changed(t, fill(routeManifest, "second."+n.Name+".test"), "  name: app\n", "  name: second\n")
	app := routed(e2etest.App{Steps: twoPauses})
	one := pluginName + ":\n            httpRoute: app\n"
	two := strings.NewReplacer(pluginName, second, "app", "second").Replace("          " + one)
	n.Apply(app.Services() + "---" + route + "---" + other + changed(t, app.Rollout(), one, one+two))
	n.AwaitHealthy(name, e2etest.Image("blue"))
	first, last := routeOf(t, n, "app"), routeOf(t, n, "second")

	n.SetImage(name, e2etest.Image("yellow"))
	n.AwaitPaused(name, 1)
	n.Promote(name)
	n.AwaitPaused(name, 3)
	requireWeights(t, n, "app", "40/60")
	requireWeights(t, n, "second", "40/60")
	requireWrites(t, n, "app", "patch", 2)
	requireWrites(t, n, "second", "patch", 2)

	n.PatchRollout(name, `{"spec":{"strategy":{"canary":{"trafficRouting":{"plugins":{"`+second+`":null}}}}}}`)
	awaitRest(t, n, last)
	requireWeights(t, n, "app", "40/60")
	n.Abort(name)
	n.AwaitAborted(name)
	awaitRest(t, n, first)
	awaitRest(t, n, last)
}

// entryOf returns the entry of a plugin in a list, which is YAML, under another name.
func entryOf(t *testing.T, list, plugin, name string) string {
	t.Helper()
	var all []map[string]any
	if err := yaml.Unmarshal([]byte(list), &all); err != nil {
		t.Fatal(err)
	}
	for _, entry := range all {
		if entry["name"] == plugin {
			entry["name"] = name
			text, err := yaml.Marshal([]any{entry})
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
	}
	t.Fatalf("no plugin %s in:\n%s", plugin, list)
	return ""
}
