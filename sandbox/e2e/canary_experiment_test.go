package e2e

import (
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/canarytest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// TestExperimentWithWeights gives a share of the requests to the pods of an experiment
// while it runs, and takes that share from the stable Service.
func TestExperimentWithWeights(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	app := e2etest.App{Steps: `
- setWeight: 20
- experiment:
    duration: 5s
    templates:
      - name: baseline
        specRef: stable
        weight: 15
        service: {}
      - name: candidate
        specRef: canary
        weight: 10
        service: {}
- setWeight: 50
- pause: {duration: 1s}
`}
	record := start(n, app)

	n.SetImage("app", e2etest.Image("yellow"))
	services := canarytest.ExperimentServices(t, n)
	during := e2etest.Split{
		Text: e2etest.SplitText(
			e2etest.Weight{Service: "app-stable", Weight: 55}, e2etest.Weight{Service: "app-canary", Weight: 20},
			e2etest.Weight{Service: services["baseline"], Weight: 15}, e2etest.Weight{Service: services["candidate"], Weight: 10}),
		Owner: "app",
	}
	n.AwaitHealthy("app", e2etest.Image("yellow"))
	n.AwaitSplit("app", e2etest.NoSplit)
	record.Require(e2etest.NoSplit, app.Split(20), during, app.Split(20), app.Split(50), app.Split(100), e2etest.NoSplit)
}
