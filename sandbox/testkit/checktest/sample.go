package checktest

import (
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/build"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// Sample is the name of the Rollout, the HTTPScaledObject and the ScaledObject
// of examples/canary-without-agent.
const Sample = "rollouts-demo"

// ready is what Kedify's KEDA, which does not run in the sandbox, says of a ScaledObject.
const ready = `-p={"status":{"conditions":[{"type":"Ready","status":"True","reason":"ScaledObjectReady","message":"ready for scaling"}]}}`

// SampleDirectory returns the path of examples/canary-without-agent.
func SampleDirectory(t testing.TB) string {
	t.Helper()
	root, err := build.FindRepository()
	if err != nil {
		t.Fatal(err)
	}
	return root + "/examples/canary-without-agent"
}

// DeploySample applies examples/canary-without-agent to the namespace, and waits until the
// Rollout is healthy.
func DeploySample(t testing.TB, n *e2etest.Namespace) {
	t.Helper()
	n.Kubectl("apply", "-k", SampleDirectory(t))
	n.Kubectl("patch", "scaledobject", Sample, "--subresource=status", "--type=merge", ready)
	n.AwaitHealthy(Sample, e2etest.Image("blue"))
}

// StartSample sets a new image and waits until the canary is paused at its
// first weight, 20.
func StartSample(t testing.TB, n *e2etest.Namespace) {
	t.Helper()
	n.SetImage(Sample, e2etest.Image("yellow"))
	n.AwaitPaused(Sample, 1)
	n.AwaitSplit(Sample, SampleSplit(20))
}

// SampleSplit is the split that the sample's Rollout sets at a weight.
func SampleSplit(weight int) e2etest.Split { return e2etest.App{Name: Sample}.Split(weight) }
