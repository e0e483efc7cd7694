// Package canarytest runs a canary, for tests of what may go wrong meanwhile: it begins
// and ends the canary, and checks that the HTTPScaledObject has carried only the
// expected splits.
package canarytest

import (
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// Name is the name of the canary's Rollout and of its HTTPScaledObject.
const Name = "app"

// Canary is a canary under way, paused at its first weight, 20, of 20 and 50.
type Canary struct {
	*e2etest.Namespace
	// App is the application that it is a canary of.
	App e2etest.App
	// Recorder watches the HTTPScaledObject.
	Recorder *e2etest.Recorder
	// Begun are the splits that the HTTPScaledObject should have carried by now. A test
	// that causes other splits adds them.
	Begun []e2etest.Split
}

// Start starts a Canary in a namespace of its own.
func Start(t testing.TB) Canary {
	t.Helper()
	return StartIn(t, e2etest.NewNamespace(t))
}

// StartIn starts a Canary in a namespace.
func StartIn(t testing.TB, n *e2etest.Namespace) Canary {
	t.Helper()
	c := Canary{
		Namespace: n,
		App:       e2etest.App{Name: Name, Steps: "- setWeight: 20\n- pause: {}\n- setWeight: 50\n- pause: {}"},
	}
	c.Apply(c.App.Manifest())
	c.AwaitHealthy(Name, e2etest.Image("blue"))
	c.Recorder = c.Record(Name)
	c.SetImage(Name, e2etest.Image("yellow"))
	c.AwaitPaused(Name, 1)
	c.AwaitSplit(Name, c.App.Split(20))
	c.Begun = []e2etest.Split{e2etest.NoSplit, c.App.Split(20)}
	return c
}

// RecordAnew starts another record after the API server was stopped: a watch cannot go
// on from a resource version that is older than the start of the API server. So the
// object gets a new version first.
func (c *Canary) RecordAnew() {
	value := "over"
	c.Annotate(Name, map[string]*string{"example.com/outage": &value})
	c.Recorder = c.Record(Name)
	c.Begun = []e2etest.Split{c.App.Split(20)}
}

// Finish promotes the canary to its second weight and to the end, and checks
// that the HTTPScaledObject has never carried anything else than it should.
func (c Canary) Finish() {
	c.Promote(Name)
	c.AwaitSplit(Name, c.App.Split(50))
	c.AwaitPaused(Name, 3)
	c.Conclude()
}

// Conclude is Finish from the second weight on.
func (c Canary) Conclude() {
	c.Promote(Name)
	c.AwaitHealthy(Name, e2etest.Image("yellow"))
	c.AwaitSplit(Name, e2etest.NoSplit)
	c.Recorder.Require(append(c.Begun, c.App.Split(50), c.App.Split(100), e2etest.NoSplit)...)
	c.Recorder.RequireNothingElse()
}
