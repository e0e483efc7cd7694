package e2e

import (
	"slices"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/checktest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// TestTwoHTTPScaledObjects sets each weight on both HTTPScaledObjects of one app.
func TestTwoHTTPScaledObjects(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	app := e2etest.App{HTTPScaledObjects: []string{"app", "admin"}, Steps: twoPauses}
	record := start(n, app)
	second := n.Record("admin")

	n.SetImage("app", e2etest.Image("yellow"))
	n.AwaitPaused("app", 1)
	n.RequireSplit("app", app.Split(20))
	n.RequireSplit("admin", app.Split(20))
	n.Promote("app", "--full")
	n.AwaitHealthy("app", e2etest.Image("yellow"))
	n.AwaitSplit("app", e2etest.NoSplit)
	n.AwaitSplit("admin", e2etest.NoSplit)
	record.Require(e2etest.NoSplit, app.Split(20), e2etest.NoSplit)
	second.Require(e2etest.NoSplit, app.Split(20), e2etest.NoSplit)
}

// TestOneOfTwoHTTPScaledObjectsGoes deletes one of two HTTPScaledObjects in the middle of
// a canary: the other keeps its split, the Rollout stays at its step, and an Event says
// so. When the object is back, the Rollout goes on, and both get the next weight.
func TestOneOfTwoHTTPScaledObjectsGoes(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	app := e2etest.App{HTTPScaledObjects: []string{"app", "admin"}, Steps: twoPauses}
	record := start(n, app)
	n.SetImage("app", e2etest.Image("yellow"))
	n.AwaitPaused("app", 1)
	n.RequireSplit("app", app.Split(20))
	n.Delete(e2etest.HTTPScaledObject("admin", "app"))
	n.Promote("app")
	n.AwaitEvent("Rollout", "app", "TrafficRoutingError", "HTTPScaledObject "+n.Name+"/admin not found")
	n.AwaitHeld("app", 2)
	n.RequireSplit("app", app.Split(20))

	n.Apply(e2etest.HTTPScaledObject("admin", "app"))
	n.AwaitPaused("app", 3)
	n.RequireSplit("app", app.Split(60))
	n.RequireSplit("admin", app.Split(60))
	n.Delete(e2etest.HTTPScaledObject("admin", "app"))
	n.Abort("app")
	n.AwaitAborted("app")
	n.AwaitSplit("app", e2etest.NoSplit)
	record.Require(e2etest.NoSplit, app.Split(20), app.Split(60), e2etest.NoSplit)
}

// TestTwoRolloutsOfOneHTTPScaledObject: while one Rollout splits the object, the other
// is refused, and an Event says why. It sets its own split once the first is deleted.
func TestTwoRolloutsOfOneHTTPScaledObject(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	first, second, record := twoOfOne(n)
	checktest.Fault{
		Name: "split of another Rollout", Make: func() {},
		Want: []checktest.Finding{{
			Check: "annotation", Status: checktest.Failure, Object: "HTTPScaledObject shared",
			Message: "carries the split of Rollout first, so Rollout second cannot set its own", Remedy: "an HTTPScaledObject of its own",
		}},
		Also: []string{"target-service", "rollout-health"},
	}.FindOnly(t, "second", "-n", n.Name)

	// The first goes on unharmed.
	n.Promote("first")
	n.AwaitPaused("first", 3)
	n.RequireSplit("shared", first.Split(60))

	n.Kubectl("delete", "rollout", "first", "--wait=true")
	n.Reconcile("second")
	n.AwaitPaused("second", 1)
	n.RequireSplit("shared", second.Split(20))
	n.Promote("second", "--full")
	n.AwaitHealthy("second", e2etest.Image("yellow"))
	n.AwaitSplit("shared", e2etest.NoSplit)
	// The second Rollout takes the split over, or finds it already removed.
	want := []e2etest.Split{first.Split(20), first.Split(60), second.Split(20)}
	got := slices.DeleteFunc(record.Splits(), func(s e2etest.Split) bool { return s == e2etest.NoSplit })
	if !slices.Equal(got, want) {
		t.Errorf("splits %v, want %v", got, want)
	}
	record.RequireNothingElse()
}

// TestAbortLeavesTheSplitOfAnother: an aborted Rollout leaves the split of another
// Rollout on their HTTPScaledObject. Once the other Rollout is deleted, the aborted one
// removes that split, since no other Rollout is left to do so.
func TestAbortLeavesTheSplitOfAnother(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	first, second, record := twoOfOne(n)
	n.Abort("second")
	n.AwaitAborted("second")
	n.RequireSplit("shared", first.Split(20))

	n.Kubectl("delete", "rollout", "first", "--wait=true")
	n.Reconcile("second")
	n.AwaitSplit("shared", e2etest.NoSplit)
	n.Retry("second")
	n.AwaitPaused("second", 1)
	n.RequireSplit("shared", second.Split(20))
	record.Require(e2etest.NoSplit, first.Split(20), e2etest.NoSplit, second.Split(20))
}

// twoOfOne has two Apps name one HTTPScaledObject, "shared": the first splits it
// at 20, and the second is refused.
func twoOfOne(n *e2etest.Namespace) (first, second e2etest.App, record *e2etest.Recorder) {
	shared := []string{"shared"}
	first = e2etest.App{Name: "first", HTTPScaledObjects: shared, Steps: twoPauses}
	second = e2etest.App{Name: "second", HTTPScaledObjects: shared, Steps: twoPauses}
	n.Apply(first.Manifest() + second.Services() + second.Rollout())
	n.AwaitHealthy("first", e2etest.Image("blue"))
	n.AwaitHealthy("second", e2etest.Image("blue"))
	record = n.Record("shared")

	n.SetImage("first", e2etest.Image("yellow"))
	n.AwaitPaused("first", 1)
	n.RequireSplit("shared", first.Split(20))
	n.SetImage("second", e2etest.Image("yellow"))
	n.AwaitEvent("Rollout", "second", "TrafficRoutingError",
		"HTTPScaledObject "+n.Name+"/shared", "Rollout "+n.Name+"/first", "Rollout "+n.Name+"/second")
	n.RequireSplit("shared", first.Split(20))
	return first, second, record
}

// TestRolloutNamesAnotherHTTPScaledObject has a Rollout name another HTTPScaledObject
// in the middle of a canary: the split moves to that one.
func TestRolloutNamesAnotherHTTPScaledObject(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	app := e2etest.App{Steps: twoPauses}
	n.Apply(e2etest.HTTPScaledObject("other", "app"))
	record := start(n, app)
	other := n.Record("other")

	n.SetImage("app", e2etest.Image("yellow"))
	n.AwaitPaused("app", 1)
	n.RequireSplit("app", app.Split(20))
	n.PatchRollout("app", `{"spec":{"strategy":{"canary":{"trafficRouting":{"plugins":{"kedify/http":{"httpScaledObjectName":"other"}}}}}}}`)
	n.AwaitSplit("other", app.Split(20))
	n.AwaitSplit("app", e2etest.NoSplit)
	n.Promote("app", "--full")
	n.AwaitHealthy("app", e2etest.Image("yellow"))
	n.AwaitSplit("other", e2etest.NoSplit)
	record.Require(e2etest.NoSplit, app.Split(20), e2etest.NoSplit)
	other.Require(e2etest.NoSplit, app.Split(20), e2etest.NoSplit)
}

// TestHTTPScaledObjectComesLater deploys an app before its HTTPScaledObject exists: the
// first deployment does not wait for the HTTPScaledObject, but a canary does.
func TestHTTPScaledObjectComesLater(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	app := e2etest.App{Steps: twoPauses}
	n.Apply(app.Services() + app.Rollout())
	n.AwaitHealthy("app", e2etest.Image("blue"))

	n.SetImage("app", e2etest.Image("yellow"))
	n.AwaitEvent("Rollout", "app", "TrafficRoutingError",
		"HTTPScaledObject "+n.Name+"/app not found", "Rollout "+n.Name+"/app", "create it")
	n.Apply(e2etest.HTTPScaledObject("app", "app"))
	n.AwaitPaused("app", 1)
	n.RequireSplit("app", app.Split(20))
	n.Promote("app", "--full")
	n.AwaitHealthy("app", e2etest.Image("yellow"))
	n.AwaitSplit("app", e2etest.NoSplit)
}

// TestAbortWithoutHTTPScaledObject deletes the HTTPScaledObject in the middle of a
// canary: an abort still succeeds.
func TestAbortWithoutHTTPScaledObject(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	app := e2etest.App{Steps: twoPauses}
	n.Apply(app.Manifest())
	n.AwaitHealthy("app", e2etest.Image("blue"))
	n.SetImage("app", e2etest.Image("yellow"))
	n.AwaitPaused("app", 1)
	n.RequireSplit("app", app.Split(20))
	n.Delete(e2etest.HTTPScaledObject("app", "app"))
	n.Abort("app")
	n.AwaitAborted("app")
}
