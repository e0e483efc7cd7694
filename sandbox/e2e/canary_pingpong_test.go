package e2e

import (
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// TestPingPong promotes twice. The two Services change sides each time, so the
// annotation stays between canaries and gives the stable Service all requests.
func TestPingPong(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	split := func(stable string, stableWeight int, canary string, canaryWeight int) e2etest.Split {
		return e2etest.Split{
			Text:  e2etest.SplitText(e2etest.Weight{Service: stable, Weight: stableWeight}, e2etest.Weight{Service: canary, Weight: canaryWeight}),
			Owner: "app",
		}
	}
	const ping, pong = "app-ping", "app-pong"
	applyPingPong(n, "- setWeight: 30\n- pause: {}\n", e2etest.HTTPScaledObject("app", "app"))
	n.AwaitSplit("app", split(ping, 100, pong, 0))
	record := n.Record("app")

	n.SetImage("app", e2etest.Image("yellow"))
	n.AwaitPaused("app", 1)
	n.RequireSplit("app", split(ping, 70, pong, 30))
	n.Promote("app")
	n.AwaitHealthy("app", e2etest.Image("yellow"))
	n.AwaitSplit("app", split(pong, 100, ping, 0))

	n.SetImage("app", e2etest.Image("green"))
	n.AwaitPaused("app", 1)
	n.RequireSplit("app", split(pong, 70, ping, 30))
	n.Abort("app")
	n.AwaitAborted("app")
	n.AwaitSplit("app", split(pong, 100, ping, 0))

	n.Retry("app")
	n.AwaitPaused("app", 1)
	n.Promote("app")
	n.AwaitHealthy("app", e2etest.Image("green"))
	n.AwaitSplit("app", split(ping, 100, pong, 0))

	record.Require(
		split(ping, 100, pong, 0),
		split(ping, 70, pong, 30), split(ping, 0, pong, 100), split(pong, 100, ping, 0),
		split(pong, 70, ping, 30), split(pong, 100, ping, 0),
		split(pong, 70, ping, 30), split(pong, 0, ping, 100), split(ping, 100, pong, 0),
	)
}

// applyPingPong applies an App with pingPong, between app-ping and app-pong, and
// waits until it is healthy; ping is stable then.
func applyPingPong(n *e2etest.Namespace, steps string, more ...string) {
	app := e2etest.App{NoServices: true, Canary: "pingPong: {pingService: app-ping, pongService: app-pong}", Steps: steps}
	n.Apply(strings.Join(append(more, e2etest.Service("app-ping", "app"), e2etest.Service("app-pong", "app"), app.Rollout()), ""))
	n.AwaitHealthy("app", e2etest.Image("blue"))
}
