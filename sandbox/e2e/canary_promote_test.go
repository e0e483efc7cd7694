package e2e

import (
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// TestPromoteFull skips the steps after weight 20. The split must stay until the
// stable Service selects the new pods: without it, all requests would go back to
// the old pods for a moment.
func TestPromoteFull(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	app := e2etest.App{Replicas: 2, Steps: twoPauses}
	record := start(n, app)

	n.SetImage("app", e2etest.Image("yellow"))
	n.AwaitPaused("app", 1)
	n.RequireSplit("app", app.Split(20))
	n.Promote("app", "--full")
	n.AwaitHealthy("app", e2etest.Image("yellow"))
	n.AwaitSplit("app", e2etest.NoSplit)
	record.Require(e2etest.NoSplit, app.Split(20), e2etest.NoSplit)
	requireSwitchedBefore(t, n, "app-stable", record)
}

// requireSwitchedBefore fails the test unless a Service was changed for the
// last time before the last change of the recorded HTTPScaledObject.
func requireSwitchedBefore(t *testing.T, n *e2etest.Namespace, service string, record *e2etest.Recorder) {
	t.Helper()
	object, err := n.Kube.CoreV1().Services(n.Name).Get(t.Context(), service, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// Resource versions are the revisions of one etcd: they order the writes
	// of different objects, too.
	switched, err := strconv.ParseUint(object.ResourceVersion, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if last := record.LastChange(); last < switched {
		t.Errorf("the split was changed at revision %d, before Service %s was switched at %d", last, service, switched)
	}
}

// TestPromotionThroughSetWeight100 has a step give the canary all requests before the
// promotion does.
func TestPromotionThroughSetWeight100(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	app := e2etest.App{Steps: `
- setWeight: 50
- pause: {duration: 1s}
- setWeight: 100
- pause: {duration: 1s}
`}
	record := start(n, app)

	n.SetImage("app", e2etest.Image("yellow"))
	n.AwaitHealthy("app", e2etest.Image("yellow"))
	n.AwaitSplit("app", e2etest.NoSplit)
	record.Require(e2etest.NoSplit, app.Split(50), app.Split(100), e2etest.NoSplit)
	requireSwitchedBefore(t, n, "app-stable", record)
}

// TestSkipAllSteps promotes with --skip-all-steps, which gives the canary
// all requests at once.
func TestSkipAllSteps(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	app := e2etest.App{Steps: twoPauses}
	record := start(n, app)

	n.SetImage("app", e2etest.Image("yellow"))
	n.AwaitPaused("app", 1)
	n.Promote("app", "--skip-all-steps")
	n.AwaitHealthy("app", e2etest.Image("yellow"))
	n.AwaitSplit("app", e2etest.NoSplit)
	record.Require(e2etest.NoSplit, app.Split(20), app.Split(100), e2etest.NoSplit)
	requireSwitchedBefore(t, n, "app-stable", record)
}
