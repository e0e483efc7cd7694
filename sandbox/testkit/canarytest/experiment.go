package canarytest

import (
	"context"
	"errors"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// ExperimentServices waits for the namespace's experiment to run, and returns the names of its
// Services from its status, by template.
//
// Argo Rollouts v1.10.1 writes the name of a Service into the status only in the reconcile that
// makes the Service. If the next reconcile has not seen that write yet, it overwrites it, and
// the name is lost for good. On a busy machine this happens to many experiments: their names
// are written again here.
func ExperimentServices(t testing.TB, n *e2etest.Namespace) map[string]string {
	t.Helper()
	services := make(map[string]string)
	experiments := n.Rollouts.ArgoprojV1alpha1().Experiments(n.Name)
	e2etest.Eventually(t, e2etest.Patience, "experiment", func(ctx context.Context) error {
		list, err := experiments.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			experiment := &list.Items[i]
			if phase := experiment.Status.Phase; phase != v1alpha1.AnalysisPhaseRunning && !phase.Completed() {
				continue
			}
			lost := false
			for i := range experiment.Status.TemplateStatuses {
				status := &experiment.Status.TemplateStatuses[i]
				if status.ServiceName == "" {
					lost, status.ServiceName = true, experiment.Name+"-"+status.Name
				}
				services[status.Name] = status.ServiceName
			}
			if !lost {
				return nil
			}
			t.Log("Argo Rollouts has lost the names of the experiment's Services")
			if _, err := experiments.Update(ctx, experiment, metav1.UpdateOptions{}); err != nil {
				return err
			}
			return errors.New("the names of its Services were lost")
		}
		return errors.New("it does not run")
	})
	return services
}
