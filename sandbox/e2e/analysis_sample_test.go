package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffictest"
)

const analysisSample = "rollouts-demo"

// TestAnalysisSample has the sample's analysis pass a good version, and then abort a
// bad one by itself. The bad one follows at once, when Argo Rollouts may still have a
// connection to a pod of the previous version.
func TestAnalysisSample(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	load := startAnalysisSample(t, n, "blue")

	n.SetImage(analysisSample, e2etest.Image("yellow"))
	n.AwaitPaused(analysisSample, 1)
	awaitMeasurement(t, n, "2")
	n.Promote(analysisSample, "--full")
	n.AwaitHealthy(analysisSample, e2etest.Image("yellow"))
	n.AwaitSplit(analysisSample, e2etest.NoSplit)
	load.RequireOnly("yellow")

	n.SetImage(analysisSample, e2etest.Image("bad-green"))
	ro := n.AwaitAborted(analysisSample)
	n.AwaitSplit(analysisSample, e2etest.NoSplit)
	for _, part := range []string{"Background analysis", `Metric "failed-requests" assessed Failed`} {
		if !strings.Contains(ro.Status.Message, part) {
			t.Errorf("the Rollout says %q, want %q in it", ro.Status.Message, part)
		}
	}
	load.RequireOnly("yellow")
	load.Finish(func(a traffic.Answer) bool { return a.FailedBackend == "green" }, "blue", "yellow", "green")
}

// TestAnalysisSampleCountsTheCanaryAlone has a stable version that fails requests and a
// canary that does not: the sample's analysis ignores the failures of the stable version.
func TestAnalysisSampleCountsTheCanaryAlone(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	load := startAnalysisSample(t, n, "bad-blue")

	n.SetImage(analysisSample, e2etest.Image("yellow"))
	n.AwaitPaused(analysisSample, 1)
	run := awaitMeasurement(t, n, "2")
	if failed := traffic.Count(load.Since(0)).Failed; len(failed) == 0 {
		t.Error("the stable version has failed nothing")
	}
	if run.Status.Phase != v1alpha1.AnalysisPhaseRunning {
		t.Errorf("the AnalysisRun is %s, want it running: %s", run.Status.Phase, run.Status.Message)
	}
	load.Finish(func(a traffic.Answer) bool { return a.FailedBackend == "blue" }, "blue", "yellow")
}

// startAnalysisSample applies examples/analysis and an HTTPScaledObject, with the image
// of a colour as the first version, and sends requests to it.
func startAnalysisSample(t *testing.T, n *e2etest.Namespace, colour string) *traffictest.Load {
	t.Helper()
	p := traffictest.Embedded(t, n)
	host := n.Name + ".test"
	sample := n.Kubectl("kustomize", e2etest.Repository(t, "examples", "analysis")) + "---\n" +
		n.Kubectl("kustomize", e2etest.Repository(t, "examples", "canary-httpscaledobject"))
	n.Apply(strings.NewReplacer(analysisSample+".example.com", host, e2etest.Image("blue"), e2etest.Image(colour)).Replace(sample))
	n.AwaitHealthy(analysisSample, e2etest.Image(colour))
	p.Await(t, host, "/")
	return traffictest.StartLoad(t, p, host)
}

// awaitMeasurement waits until the analysis of a revision has had enough requests
// for a measurement, and the measurement was successful.
func awaitMeasurement(t *testing.T, n *e2etest.Namespace, revision string) *v1alpha1.AnalysisRun {
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
