package canarytest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// AnalysisTemplate is the manifest of an AnalysisTemplate that queries url/health every
// second, and fails unless "ok" is true in the response.
func AnalysisTemplate(url string) string {
	return fmt.Sprintf(`
apiVersion: argoproj.io/v1alpha1
kind: AnalysisTemplate
metadata:
  name: answers
spec:
  metrics:
    - name: answers
      interval: 1s
      failureLimit: 0
      successCondition: result == true
      provider:
        web:
          url: %s/health
          jsonPath: "{$.ok}"
`, url)
}

// AwaitMeasurement waits until the analysis of a Rollout's revision has had enough
// requests for a measurement, and the measurement was successful.
func AwaitMeasurement(t testing.TB, n *e2etest.Namespace, revision string) *v1alpha1.AnalysisRun {
	t.Helper()
	var run *v1alpha1.AnalysisRun
	e2etest.Eventually(t, e2etest.Patience, "successful measurement at revision "+revision, func(ctx context.Context) error {
		runs, err := n.Rollouts.ArgoprojV1alpha1().AnalysisRuns(n.Name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		at := slices.IndexFunc(runs.Items, func(r v1alpha1.AnalysisRun) bool {
			return r.Annotations["rollout.argoproj.io/revision"] == revision
		})
		if at < 0 {
			return fmt.Errorf("none of %d AnalysisRuns is of that revision", len(runs.Items))
		}
		run = &runs.Items[at]
		if results := run.Status.MetricResults; len(results) != 1 || results[0].Successful == 0 {
			return fmt.Errorf("AnalysisRun %s is %s: %+v", run.Name, run.Status.Phase, results)
		}
		return nil
	})
	return run
}

// RequireAbortedByAnalysis fails the test unless an aborted Rollout says that the
// background analysis of examples/analysis has aborted it.
func RequireAbortedByAnalysis(t testing.TB, ro *v1alpha1.Rollout) {
	t.Helper()
	parts := []string{"Background analysis", `Metric "failed-requests" assessed Failed`}
	if !e2etest.ContainsAll(ro.Status.Message, parts) {
		t.Errorf("the Rollout says %q, want %q in it", ro.Status.Message, parts)
	}
}
