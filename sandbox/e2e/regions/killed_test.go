package regions

import (
	"context"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/region"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/controllertest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// The controller is killed with its plugin while steps wait for another cluster, then that
// cluster's API server. One step meets the other cluster after the former, and one sees after the
// latter that it has failed.
//
// Not in parallel: other tests need both.
func TestKilledWhileTheyWait(t *testing.T) {
	w := newWorld(t)
	steps := meeting(w.meet(""))
	both := []string{"app", "bad"}
	for _, name := range both {
		w.both(func(n *e2etest.Namespace) { n.Apply(rollout(name, steps)) })
	}
	for _, name := range both {
		w.both(func(n *e2etest.Namespace) { n.AwaitHealthy(name, e2etest.Image("blue")) })
		w.both(func(n *e2etest.Namespace) { release(n, name, "yellow") })
	}
	for _, name := range both {
		w.both(func(n *e2etest.Namespace) { n.AwaitPaused(name, pausedStep) })
		w.home.Promote(name)
	}
	for _, name := range both {
		awaitWaiting(w.home, name, meetingStep, name+" in eu")
	}
	e2etest.Shell(t, "kubectl -n argo-rollouts delete pod --all --force --grace-period=0 2>&1")
	w.eu.Promote("app")
	controllertest.Await(t)
	w.both(func(n *e2etest.Namespace) { n.AwaitHealthy("app", e2etest.Image("yellow")) })
	awaitWaiting(w.home, "bad", meetingStep, "bad in eu")

	e2etest.AllowRestarts(t, region.Namespace) // the controllers there may end without it
	e2etest.Shell(t, "kubectl -n "+region.Namespace+" delete pod --selector app="+region.APIServer+" --force --grace-period=0 2>&1")
	e2etest.Eventually(t, e2etest.Patience, "the API server is back", func(ctx context.Context) error {
		_, err := w.eu.Kube.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err
	})
	w.eu.Abort("bad")
	w.both(func(n *e2etest.Namespace) { n.AwaitAborted("bad") })
}
