package canarytest

import (
	"context"
	"errors"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/e2etest"
)

// experimentAttempts bounds how often an experiment is begun anew.
const experimentAttempts = 5

// WithExperiment runs a canary with an experiment, and repeats run while it returns
// false: Argo Rollouts v1.10.1 writes the name of an experiment's Service into the
// status only in the reconcile that makes the Service. If the next reconcile has not
// seen that write yet, it overwrites it, and the name is lost for good. On a busy
// machine this happens to some experiments.
func WithExperiment(t *testing.T, run func(t *testing.T) (named bool)) {
	t.Helper()
	for range experimentAttempts {
		if run(t) {
			return
		}
		t.Log("Argo Rollouts has lost the names of the experiment's Services")
	}
	t.Fatalf("Argo Rollouts has lost the names of the Services of %d experiments in a row", experimentAttempts)
}

// ExperimentServices waits for the namespace's experiment to run, and returns the names
// of its Services from its status, by template.
func ExperimentServices(t testing.TB, n *e2etest.Namespace) map[string]string {
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
