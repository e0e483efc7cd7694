package e2e

import (
	"context"
	"errors"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/e2etest"
)

// experimentAttempts bounds how often an experiment is begun anew. Argo Rollouts
// v1.10.1 writes the name of an experiment's Service into its status only in the
// reconcile that makes the Service; a next one that has not seen that write yet
// overwrites it, and then the experiment never has one. On a busy machine this
// happens to some.
const experimentAttempts = 5

// TestExperimentWithWeights gives a share of the requests to the pods of an
// experiment, taken off stable's, while the experiment runs.
func TestExperimentWithWeights(t *testing.T) {
	t.Parallel()
	for range experimentAttempts {
		if splitsToExperiment(t) {
			return
		}
		t.Log("Argo Rollouts has lost the names of the experiment's Services")
	}
	t.Fatalf("Argo Rollouts has lost the names of the Services of %d experiments in a row", experimentAttempts)
}

// splitsToExperiment runs a canary with an experiment. It returns false if Argo
// Rollouts has lost the names of the experiment's Services.
func splitsToExperiment(t *testing.T) bool {
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
	services := experimentServices(t, n)
	if services["baseline"] == "" || services["candidate"] == "" {
		return false
	}
	during := e2etest.Split{
		Text: e2etest.SplitText(
			e2etest.Weight{Service: "app-stable", Weight: 55}, e2etest.Weight{Service: "app-canary", Weight: 20},
			e2etest.Weight{Service: services["baseline"], Weight: 15}, e2etest.Weight{Service: services["candidate"], Weight: 10}),
		Owner: "app",
	}
	n.AwaitHealthy("app", e2etest.Image("yellow"))
	n.AwaitSplit("app", e2etest.NoSplit)
	record.Require(e2etest.NoSplit, app.Split(20), during, app.Split(20), app.Split(50), app.Split(100), e2etest.NoSplit)
	return true
}

// experimentServices waits for the namespace's experiment to run, and returns
// the names that its status gives of the Services of its templates.
func experimentServices(t *testing.T, n *e2etest.Namespace) map[string]string {
	t.Helper()
	services := make(map[string]string)
	e2etest.Eventually(t, e2etest.Patience, "experiment", func(ctx context.Context) error {
		list, err := n.Rollouts.ArgoprojV1alpha1().Experiments(n.Name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, experiment := range list.Items {
			if phase := experiment.Status.Phase; phase != v1alpha1.AnalysisPhaseRunning && !phase.Completed() {
				continue
			}
			for _, status := range experiment.Status.TemplateStatuses {
				services[status.Name] = status.ServiceName
			}
			return nil
		}
		return errors.New("it does not run")
	})
	return services
}
