package contour

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
)

// With pingPong the two Services swap roles at each promotion, and no request is lost
// or goes to the wrong version. While the second Service is stable it gets all traffic,
// which is not what was applied: the route is in progress. After the next promotion the
// route is as it was applied.
func TestPingPong(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	c := canary{Namespace: n, host: n.Name + ".test", proxy: gateway(t)}
	c.route = fill(strings.NewReplacer("app-stable", "app-ping", "app-canary", "app-pong").Replace(routeManifest), c.host)
	app := routed(e2etest.App{NoServices: true, Canary: "pingPong: {pingService: app-ping, pongService: app-pong}", Steps: "- setWeight: 30\n- pause: {}\n"})
	n.Apply(e2etest.Service("app-ping", name) + e2etest.Service("app-pong", name) + "---" + c.route + app.Rollout())
	n.AwaitHealthy(name, e2etest.Image("blue"))
	c.awaitServed(t)
	before := routeOf(t, n, name)
	record := recordWeights(t, n, name)
	load := startLoad(t, c.proxy, c.host)
	// The Service of the canary changes its pods when the weight is set: Contour's Envoys may
	// have the weight a moment before they have the pods.
	var changing []time.Time // when each such change began and was over
	now := func() { changing = append(changing, time.Now()) }

	now()
	n.SetImage(name, e2etest.Image("yellow"))
	n.AwaitPaused(name, 1)
	requireWeights(t, n, name, "70/30")
	load.AwaitShareWithin("yellow", 30, margin)
	now()
	n.Promote(name)
	n.AwaitHealthy(name, e2etest.Image("yellow"))
	c.awaitWeights(t, e2etest.Patience, "0/100")
	awaitOnly(t, load, "yellow")

	now()
	n.SetImage(name, e2etest.Image("green"))
	n.AwaitPaused(name, 1)
	requireWeights(t, n, name, "30/70")
	load.AwaitShareWithin("green", 30, margin)
	now()
	n.Abort(name)
	n.AwaitAborted(name)
	awaitRoute(t, n, name, e2etest.Patience, "all for pong", func(route *unstructured.Unstructured) error { return checkWeights(route, "0/100") })
	awaitOnly(t, load, "yellow")
	now()
	n.Retry(name)
	n.AwaitPaused(name, 1)
	load.AwaitShareWithin("green", 30, margin)
	now()
	n.Promote(name)
	n.AwaitHealthy(name, e2etest.Image("green"))
	awaitRest(t, n, before)
	awaitOnly(t, load, "green")
	early := func(a traffic.Answer) bool {
		begun := slices.IndexFunc(changing, a.Sent.Before)
		return a.Status == http.StatusServiceUnavailable && begun%2 == 1
	}
	load.Finish(early, "blue", "yellow", "green")
	record.requireWeights("100/0", "70/30", "0/100", "30/70", "0/100", "30/70", "100/0")
}
