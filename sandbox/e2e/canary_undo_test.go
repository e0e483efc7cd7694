package e2e

import (
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// TestUndoMidCanary goes back to the stable image in the middle of a canary: the split
// is removed.
func TestUndoMidCanary(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	app := e2etest.App{Steps: twoPauses}
	record := start(n, app)

	n.SetImage("app", e2etest.Image("yellow"))
	n.AwaitPaused("app", 1)
	n.RequireSplit("app", app.Split(20))
	n.Undo("app")
	n.AwaitHealthy("app", e2etest.Image("blue"))
	n.AwaitSplit("app", e2etest.NoSplit)
	record.Require(e2etest.NoSplit, app.Split(20), e2etest.NoSplit)
}

// TestNewImageMidCanary sets a third image in the middle of a canary: the split of the
// second image must be removed before the third gets any request.
func TestNewImageMidCanary(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	app := e2etest.App{Steps: twoPauses}
	record := start(n, app)

	n.SetImage("app", e2etest.Image("yellow"))
	n.AwaitPaused("app", 1)
	n.Promote("app")
	n.AwaitPaused("app", 3)
	n.RequireSplit("app", app.Split(60))
	n.SetImage("app", e2etest.Image("green"))
	n.AwaitPaused("app", 1)
	n.RequireSplit("app", app.Split(20))
	n.Promote("app", "--full")
	n.AwaitHealthy("app", e2etest.Image("green"))
	n.AwaitSplit("app", e2etest.NoSplit)
	record.Require(e2etest.NoSplit, app.Split(20), app.Split(60), e2etest.NoSplit, app.Split(20), e2etest.NoSplit)
}
