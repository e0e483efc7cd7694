package e2e

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/e2etest"
)

// TestGuideSample runs the guide's sample at full length: its two timed pauses end by
// themselves, and each weight is found on the HTTPScaledObject, word for word, until
// the promotion has taken it off again.
func TestGuideSample(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	const name = "rollouts-demo"
	n.Kubectl("apply", "-k", e2etest.Repository(t, "examples", "canary"))
	n.AwaitHealthy(name, e2etest.Image("blue"))
	before := n.HTTPScaledObject(name)
	record := n.Record(name)

	split := func(text string) e2etest.Split { return e2etest.Split{Text: text, Owner: name} }
	at20 := split("- service: rollouts-demo-stable\n  weight: 80\n- service: rollouts-demo-canary\n  weight: 20\n")
	at50 := split("- service: rollouts-demo-stable\n  weight: 50\n- service: rollouts-demo-canary\n  weight: 50\n")
	at80 := split("- service: rollouts-demo-stable\n  weight: 20\n- service: rollouts-demo-canary\n  weight: 80\n")
	full := split("- service: rollouts-demo-stable\n  weight: 0\n- service: rollouts-demo-canary\n  weight: 100\n")

	n.SetImage(name, e2etest.Image("yellow"))
	n.AwaitPaused(name, 1)
	n.RequireSplit(name, at20)
	jsonpath := `jsonpath={.metadata.annotations.http\.kedify\.io/weighted-backends}`
	if diff := cmp.Diff(at20.Text, n.Kubectl("get", "httpso", name, "-o", jsonpath)); diff != "" {
		t.Errorf("the guide's kubectl get httpso (-want +got):\n%s", diff)
	}

	n.Promote(name)
	n.AwaitPaused(name, 3)
	n.RequireSplit(name, at50)
	n.AwaitPaused(name, 5)
	n.RequireSplit(name, at80)
	n.AwaitHealthy(name, e2etest.Image("yellow"))
	n.AwaitSplit(name, e2etest.NoSplit)
	record.Require(e2etest.NoSplit, at20, at50, at80, full, e2etest.NoSplit)

	if diff := cmp.Diff(before.GetAnnotations(), n.HTTPScaledObject(name).GetAnnotations()); diff != "" {
		t.Errorf("annotations before and after the canary (-before +after):\n%s", diff)
	}
}
