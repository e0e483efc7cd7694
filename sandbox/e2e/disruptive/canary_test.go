package disruptive

import (
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/e2etest"
)

// canary is a canary under way, paused at its first weight, 20, of 20 and 50.
type canary struct {
	*e2etest.Namespace
	app e2etest.App
	// recorder watches the HTTPScaledObject; begun are the splits it has seen
	// by now.
	recorder *e2etest.Recorder
	begun    []e2etest.Split
}

const name = "app"

func startCanary(t *testing.T) canary {
	t.Helper()
	c := canary{
		Namespace: e2etest.NewNamespace(t),
		app:       e2etest.App{Name: name, Steps: "- setWeight: 20\n- pause: {}\n- setWeight: 50\n- pause: {}"},
	}
	c.Apply(c.app.Manifest())
	c.AwaitHealthy(name, e2etest.Image("blue"))
	c.recorder = c.Record(name)
	c.SetImage(name, e2etest.Image("yellow"))
	c.AwaitPaused(name, 1)
	c.AwaitSplit(name, c.app.Split(20))
	c.begun = []e2etest.Split{e2etest.NoSplit, c.app.Split(20)}
	return c
}

// recordAnew starts another record, since one does not survive the API server,
// which cannot go on from a version of before its start. So the object gets a
// new one.
func (c *canary) recordAnew() {
	value := "over"
	c.Annotate(name, map[string]*string{"example.com/outage": &value})
	c.recorder = c.Record(name)
	c.begun = []e2etest.Split{c.app.Split(20)}
}

// finish promotes the canary to its second weight and to the end, and checks
// that the HTTPScaledObject has never carried anything else than it should.
func (c canary) finish() {
	c.Promote(name)
	c.AwaitSplit(name, c.app.Split(50))
	c.AwaitPaused(name, 3)
	c.conclude()
}

// conclude is finish from the second weight on.
func (c canary) conclude() {
	c.Promote(name)
	c.AwaitHealthy(name, e2etest.Image("yellow"))
	c.AwaitSplit(name, e2etest.NoSplit)
	c.recorder.Require(append(c.begun, c.app.Split(50), c.app.Split(100), e2etest.NoSplit)...)
	c.recorder.RequireNothingElse()
}
