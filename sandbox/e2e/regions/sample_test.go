package regions

import (
	"os"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// The sample of regions: both clusters have the same file, and their canaries wait for each
// other, go on together, and roll back together.
func TestWaitForRegionsSample(t *testing.T) {
	t.Parallel()
	const rollout, firstBarrier = "storefront", 2
	w, at := newWorld(t), apiServers()
	text, err := os.ReadFile(e2etest.Repository(t, "examples", "steps", "wait-for-regions.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	const hosts = "hosts: [eu.k8s.example.com, us.k8s.example.com]"
	if !strings.Contains(string(text), hosts) {
		t.Fatalf("the sample does not have %q, which the test replaces", hosts)
	}
	manifests := strings.Replace(string(text), hosts, `hosts: ["`+at[eu]+`", "`+at[home]+`"]`, 1)
	w.both(func(n *e2etest.Namespace) {
		n.Apply(kubeconfigSecret("region-eu", w.tokenKubeconfig(eu, at[eu], w.token(eu))))
		n.Apply(kubeconfigSecret("region-us", w.tokenKubeconfig(home, at[home], w.token(home))))
		n.Apply(manifests)
	})
	w.both(func(n *e2etest.Namespace) { n.AwaitHealthy(rollout, e2etest.Image("blue")) })

	w.home.SetImage(rollout, e2etest.Image("yellow"))
	awaitWaiting(w.home, rollout, firstBarrier, rollout, "eu")
	w.eu.SetImage(rollout, e2etest.Image("yellow"))
	w.both(func(n *e2etest.Namespace) { n.AwaitHealthy(rollout, e2etest.Image("yellow")) })

	w.eu.SetImage(rollout, e2etest.Image("green"))
	awaitWaiting(w.eu, rollout, firstBarrier, rollout, "us")
	w.home.SetImage(rollout, e2etest.Image("green"))
	w.home.Abort(rollout)
	w.both(func(n *e2etest.Namespace) { n.AwaitAborted(rollout) })
}
