package regions

import (
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// The clusters wait for one another. One fails: both roll back. They are retried one by one,
// and go on together.
func TestRegionsRollBackTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	steps := meeting(w.meet(""))
	w.both(func(n *e2etest.Namespace) { n.Apply(rollout("app", steps)) })
	w.both(func(n *e2etest.Namespace) { n.AwaitHealthy("app", e2etest.Image("blue")) })
	w.both(func(n *e2etest.Namespace) { release(n, "app", "yellow") })
	w.both(func(n *e2etest.Namespace) { n.AwaitPaused("app", pausedStep) })
	w.home.Promote("app")
	awaitWaiting(w.home, "app", meetingStep, "app in eu")
	w.home.AwaitEvent("Rollout", "app", "StepWaiting", "app in eu")
	w.eu.Abort("app")
	w.both(func(n *e2etest.Namespace) { n.AwaitAborted("app") })

	// The failure of the other is older than the canary that is retried: it is waited for.
	w.home.Retry("app")
	w.home.AwaitPaused("app", pausedStep)
	w.home.Promote("app")
	awaitWaiting(w.home, "app", meetingStep, "app in eu", "failed")
	w.eu.Retry("app")
	w.eu.AwaitPaused("app", pausedStep)
	w.eu.Promote("app")
	w.both(func(n *e2etest.Namespace) { n.AwaitHealthy("app", e2etest.Image("yellow")) })
}

// A cluster that has not been changed yet is Healthy, with another version: it is waited
// for.
func TestRegionNotChangedYet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	steps := meeting(w.meet(""))
	w.both(func(n *e2etest.Namespace) { n.Apply(rollout("app", steps)) })
	w.both(func(n *e2etest.Namespace) { n.AwaitHealthy("app", e2etest.Image("blue")) })
	release(w.home, "app", "yellow")
	w.home.AwaitPaused("app", pausedStep)
	w.home.Promote("app")
	awaitWaiting(w.home, "app", meetingStep, "app in eu", "blue", "yellow")
	release(w.eu, "app", "yellow")
	w.eu.AwaitPaused("app", pausedStep)
	w.eu.Promote("app")
	w.both(func(n *e2etest.Namespace) { n.AwaitHealthy("app", e2etest.Image("yellow")) })
}

// The same for Rollouts that have their template in a Deployment: the version is that of the
// ReplicaSets.
func TestRegionNotChangedYetWithWorkloadRef(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	steps := meeting(w.meet(""))
	change := func(n *e2etest.Namespace) {
		n.Kubectl("set", "image", "deployment/app", "app="+e2etest.Image("yellow"))
		n.AwaitPaused("app", pausedStep)
		n.Promote("app")
	}
	w.both(func(n *e2etest.Namespace) { n.Apply(workloadRollout("app", steps)) })
	w.both(func(n *e2etest.Namespace) { awaitPromoted(n, "app") })
	change(w.home)
	awaitWaiting(w.home, "app", meetingStep, "app in eu", "blue", "yellow")
	change(w.eu)
	w.both(func(n *e2etest.Namespace) { awaitPromoted(n, "app") })
}

// One cluster goes on after the other, in the order of the list.
func TestRegionsOneAfterAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name := w.meet("until: Promoted")
	steps := "- plugin: {name: kedify/step, config: {use: " + name + "}}\n- pause: {}"
	w.both(func(n *e2etest.Namespace) { n.Apply(rollout("app", steps)) })
	w.both(func(n *e2etest.Namespace) { n.AwaitHealthy("app", e2etest.Image("blue")) })

	release(w.eu, "app", "yellow")
	awaitWaiting(w.eu, "app", 0, "app in home")
	release(w.home, "app", "yellow")
	w.home.AwaitPaused("app", 1) // the first waits for nobody
	awaitWaiting(w.eu, "app", 0, "app in home", "Healthy")
	w.home.Promote("app")
	w.home.AwaitHealthy("app", e2etest.Image("yellow"))
	w.eu.AwaitPaused("app", 1)
	w.eu.Promote("app")
	w.eu.AwaitHealthy("app", e2etest.Image("yellow"))
}
