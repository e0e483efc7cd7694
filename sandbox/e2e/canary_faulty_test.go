package e2e

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/canarytest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// Ways to break a Rollout's spec in the middle of a canary, and the Events that
// report them.
var faults = map[string]struct{ patch, event string }{
	"mistyped key": {
		`{"spec":{"strategy":{"canary":{"trafficRouting":{"plugins":{"kedify/http":{"httpScaledObjectName":null,"httpScaledObjectname":"app"}}}}}}}`,
		`unknown key "httpScaledObjectname"`,
	},
	"canary Service removed": {
		`{"spec":{"strategy":{"canary":{"canaryService":null}}}}`,
		"spec.strategy.canary.canaryService is missing",
	},
}

// TestAbortOfAFaultyRollout: a fault in the spec leaves the split as it is, and does
// not prevent an abort from removing it.
func TestAbortOfAFaultyRollout(t *testing.T) {
	t.Parallel()
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := e2etest.App{Steps: twoPauses}
			n, record := pausedAt20(t, app)
			n.PatchRollout("app", fault.patch)
			n.AwaitEvent("Rollout", "app", "TrafficRoutingError", fault.event, "the split stays as it is")
			n.RequireSplit("app", app.Split(20))
			n.Abort("app")
			n.AwaitAborted("app")
			n.AwaitSplit("app", e2etest.NoSplit)
			record.Require(e2etest.NoSplit, app.Split(20), e2etest.NoSplit)
		})
	}
}

// TestAFaultyRolloutIsCorrected: once the spec is corrected, the canary goes on where
// it was.
func TestAFaultyRolloutIsCorrected(t *testing.T) {
	t.Parallel()
	app := e2etest.App{Steps: twoPauses}
	n, record := pausedAt20(t, app)
	n.PatchRollout("app", faults["mistyped key"].patch)
	n.AwaitEvent("Rollout", "app", "TrafficRoutingError", faults["mistyped key"].event)
	// The next weight waits for the correction.
	n.Promote("app")
	n.AwaitHeld("app", 2)
	n.RequireSplit("app", app.Split(20))
	n.PatchRollout("app", `{"spec":{"strategy":{"canary":{"trafficRouting":{"plugins":{"kedify/http":{"httpScaledObjectName":"app","httpScaledObjectname":null}}}}}}}`)
	n.AwaitPaused("app", 3)
	n.RequireSplit("app", app.Split(60))
	record.Require(e2etest.NoSplit, app.Split(20), app.Split(60))
}

// TestAnalysisOfAFaultyRollout: a fault in the spec does not stop a background
// analysis. When its measurements turn bad, the Rollout aborts by itself, which removes the
// split.
func TestAnalysisOfAFaultyRollout(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	var bad atomic.Bool
	url := e2etest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"ok": %t}`, !bad.Load())
	}))
	n.Apply(canarytest.AnalysisTemplate(url))
	app := e2etest.App{Canary: "analysis:\n  templates:\n    - templateName: answers\n", Steps: twoPauses}
	record := start(n, app)
	n.SetImage("app", e2etest.Image("bad-yellow"))
	n.AwaitPaused("app", 1)
	n.PatchRollout("app", faults["mistyped key"].patch)
	n.AwaitEvent("Rollout", "app", "TrafficRoutingError", faults["mistyped key"].event)
	bad.Store(true)
	n.AwaitAborted("app")
	n.AwaitSplit("app", e2etest.NoSplit)
	record.Require(e2etest.NoSplit, app.Split(20), e2etest.NoSplit)
}
