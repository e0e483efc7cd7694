package contour

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
)

const mirrorSteps = `
- setCanaryScale: {replicas: 1}
- setMirrorRoute:
    name: mirror
    match: [{method: {exact: GET}, path: {prefix: /}}]
- pause: {}
- setMirrorRoute:
    name: mirror
- pause: {}
`

// Each request is answered by stable and mirrored to the canary, which counts its
// requests; when the mirror route is gone, none is mirrored. At the end the route is as
// it was applied.
func TestMirrorRoute(t *testing.T) {
	t.Parallel()
	c := startCanary(t, e2etest.App{Steps: mirrorSteps, TrafficRouting: "managedRoutes: [{name: mirror}]"}, routeManifest)
	c.awaitServed(t)
	before := routeOf(t, c.Namespace, name)
	c.SetImage(name, e2etest.Image("yellow"))
	c.AwaitPaused(name, 2)
	requireWeights(t, c.Namespace, name, "100/0 100/0")
	e2etest.Eventually(t, e2etest.Patience, "each request is mirrored once", func(context.Context) error {
		return c.checkMirrored(t.Context(), true)
	})

	load := startLoad(t, c.proxy, c.host)
	c.Promote(name)
	c.AwaitPaused(name, 4)
	load.RequireOnly("blue")
	load.Finish(nil, "blue")
	e2etest.Eventually(t, e2etest.Patience, "no request is mirrored", func(context.Context) error {
		return c.checkMirrored(t.Context(), false)
	})
	c.Abort(name)
	c.AwaitAborted(name)
	awaitRest(t, c.Namespace, before)
}

// checkMirrored sends some requests, and returns an error unless stable answers them
// and the canary gets each of them once if mirrored is true, and none otherwise.
func (c canary) checkMirrored(ctx context.Context, mirrored bool) error {
	const sent = 200
	begun := time.Now()
	before, err := c.counted(ctx)
	if err != nil {
		return err
	}
	answers, err := traffic.Send(ctx, traffic.Options{Target: c.proxy.Address, Host: c.host, Connections: 4}, sent)
	if err != nil {
		return err
	}
	if err := traffic.CheckSmooth(answers, "blue", 100); err != nil {
		return err
	}
	want := 0
	if mirrored {
		want = sent
	}
	// A mirrored request is answered after the original one, if at all.
	return e2etest.Poll(ctx, 5*time.Second, func(ctx context.Context) error {
		after, err := c.counted(ctx)
		if err != nil {
			return err
		}
		probes := 2 + int(time.Since(begun)/time.Second)
		if got := after - before; got < want || got > want+probes {
			return fmt.Errorf("of %d requests and %d probes the canary has got %d, want %d and the probes", sent, probes, got, want)
		}
		return nil
	})
}

// counted returns how many requests the canary has answered.
func (c canary) counted(ctx context.Context) (int, error) {
	body, err := e2etest.Get(ctx, "http://app-canary."+c.Name+".svc.cluster.local/stats", "")
	if err != nil {
		return 0, err
	}
	var stats struct{ Requests int }
	err = json.Unmarshal([]byte(body), &stats)
	return stats.Requests, err
}
