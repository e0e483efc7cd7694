package e2e

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/canarytest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// TestFailingAnalysisRollsBack runs a background analysis. When its measurements turn
// bad in the middle of the canary, the Rollout aborts by itself.
func TestFailingAnalysisRollsBack(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	var bad atomic.Bool
	var measured atomic.Int64
	url := e2etest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		measured.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"ok": %t}`, !bad.Load())
	}))
	n.Apply(canarytest.AnalysisTemplate(url))
	app := e2etest.App{
		Canary: `
analysis:
  templates:
    - templateName: answers
`,
		Steps: `
- setWeight: 20
- pause: {duration: 2s}
- setWeight: 50
- pause: {}
`}
	record := start(n, app)

	n.SetImage("app", e2etest.Image("bad-yellow"))
	n.AwaitPaused("app", 3)
	n.RequireSplit("app", app.Split(50))
	if measured.Load() == 0 {
		t.Error("nothing was measured before the second weight")
	}
	bad.Store(true)
	n.AwaitAborted("app")
	n.AwaitSplit("app", e2etest.NoSplit)
	record.Require(e2etest.NoSplit, app.Split(20), app.Split(50), e2etest.NoSplit)

	e2etest.Eventually(t, e2etest.Patience, "analysis", func(ctx context.Context) error {
		runs, err := n.Rollouts.ArgoprojV1alpha1().AnalysisRuns(n.Name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(runs.Items) != 1 || runs.Items[0].Status.Phase != v1alpha1.AnalysisPhaseFailed {
			return fmt.Errorf("want one that has failed, got %d", len(runs.Items))
		}
		return nil
	})
}
