package disruptive

import (
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/e2e/internal/traffictest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/traffic"
)

// TestTrafficAPIServerStopped takes the API server away for 30 seconds: both
// proxies go on without one request that fails, and follow the next weight once
// it is back.
func TestTrafficAPIServerStopped(t *testing.T) {
	s := startSplit(t)
	e2etest.AllowRestarts(t, e2etest.ControllerNamespace) // the controller may lose its lease
	throughEnvoy := traffictest.StartLoad(t, s.envoy, s.host)
	load := traffictest.StartLoad(t, s.embedded, s.host)
	begun := load.Mark()
	if err := cluster.StopComponentFor(t.Context(), cluster.APIServer, 30*time.Second, nil); err != nil {
		t.Fatal(err)
	}
	if err := traffic.CheckSmooth(load.Since(begun), "yellow", 20); err != nil {
		t.Error(err)
	}
	// The node was not heard of, either: its pods may be said not to be ready, one
	// after the other, until it is.
	throughEnvoy.AwaitShare("yellow", 20)
	load.AwaitShare("yellow", 20)
	s.set(t, 70)
	throughEnvoy.AwaitShare("yellow", 70)
	load.AwaitShare("yellow", 70)
	throughEnvoy.Finish(nil, "blue", "yellow")
	load.Finish(nil, "blue", "yellow")
}
