package e2e

import (
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/canarytest"
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
	canarytest.AwaitMeasurement(t, n, "2")
	n.Promote(analysisSample, "--full")
	n.AwaitHealthy(analysisSample, e2etest.Image("yellow"))
	n.AwaitSplit(analysisSample, e2etest.NoSplit)
	load.RequireOnly("yellow")

	n.SetImage(analysisSample, e2etest.Image("bad-green"))
	ro := n.AwaitAborted(analysisSample)
	n.AwaitSplit(analysisSample, e2etest.NoSplit)
	canarytest.RequireAbortedByAnalysis(t, ro)
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
	run := canarytest.AwaitMeasurement(t, n, "2")
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
