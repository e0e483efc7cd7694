package disruptive

import (
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/canarytest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/controllertest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffictest"
)

// TestAPIServerStopped stops the API server for 30 seconds, in the middle of a canary
// and of a split under load. The controller may lose its lease and restart: the
// canary's split stays and is not written, and the canary goes on to its end. Neither
// proxy fails a request, and both follow the next weight once the API server is back.
func TestAPIServerStopped(t *testing.T) {
	c := canarytest.Start(t)
	version := c.HTTPScaledObject(name).GetResourceVersion()
	s := traffictest.StartApp(t)
	e2etest.AllowRestarts(t, e2etest.ControllerNamespace) // the controller may lose its lease
	throughEnvoy := traffictest.StartLoad(t, s.Envoy, s.Host)
	load := traffictest.StartLoad(t, s.Embedded, s.Host)
	begun, begunThroughEnvoy := load.Mark(), throughEnvoy.Mark()
	if err := cluster.StopComponentFor(t.Context(), cluster.APIServer, 30*time.Second, nil); err != nil {
		t.Fatal(err)
	}
	if err := traffic.CheckSmooth(load.Since(begun), "yellow", 20); err != nil {
		t.Error(err)
	}
	// As many as there may be of 9,000, if the machine is slow.
	if err := traffic.CheckRandom(throughEnvoy.Since(begunThroughEnvoy), "yellow", 20, 1000); err != nil {
		t.Error("Envoy: ", err)
	}
	c.RequireSplit(name, c.App.Split(20))
	if now := c.HTTPScaledObject(name).GetResourceVersion(); now != version {
		t.Errorf("the HTTPScaledObject was written meanwhile: version %s, then %s", version, now)
	}

	// The node could not report, either: its pods may be marked as not ready, one after
	// the other, until it reports again.
	throughEnvoy.AwaitShare("yellow", 20)
	load.AwaitShare("yellow", 20)
	s.SetWeight(t, 70)
	throughEnvoy.AwaitShare("yellow", 70)
	load.AwaitShare("yellow", 70)
	throughEnvoy.Finish(nil, "blue", "yellow")
	load.Finish(nil, "blue", "yellow")

	c.RecordAnew()
	controllertest.Await(t)
	c.Finish()
}
