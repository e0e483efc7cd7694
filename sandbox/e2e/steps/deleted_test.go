package steps

import (
	"context"
	"fmt"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/controllertest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// program is the program of the registration kedify/step, as the node runs it in the
// controller's container.
const program = "/home/argo-rollouts/plugin-bin/kedify/step"

// deleteRollout deletes a Rollout, and waits until it is gone with its pods.
func deleteRollout(t *testing.T, n *e2etest.Namespace, name string) {
	t.Helper()
	n.Delete(rollout(name, pause, ""))
	e2etest.Eventually(t, e2etest.Patience, "the end of Rollout "+name, func(ctx context.Context) error {
		_, err := n.Rollouts.ArgoprojV1alpha1().Rollouts(n.Name).Get(ctx, name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		pods, err := n.Kube.CoreV1().Pods(n.Name).List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("it has %d pods", len(pods.Items))
		}
		return err
	})
}

// When a Rollout is deleted in the middle of a step, its Job is deleted, too. Work in
// an external system goes on, and so do the other Rollouts, with the same plugin
// process.
func TestRolloutDeletedDuringAStep(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	deleted, goesOn := newOutside(t), newOutside(t)
	start(t, n, map[string]string{
		"app":  rollout("app", jobStep("smoke", runs, ""), ""),
		"api":  rollout("api", deleted.step("build", ""), ""),
		"next": rollout("next", goesOn.step("build", ""), ""),
	})
	for _, o := range []*outside{deleted, goesOn} {
		o.await(t, 1, "running")
	}
	awaitJobs(t, n, "one", number(1))
	for _, name := range []string{"app", "api", "next"} {
		n.AwaitStep(name, 0, v1alpha1.StepPluginPhaseRunning)
	}
	plugin := controllertest.Process(t, program)

	deleteRollout(t, n, "app")
	awaitNoPods(t, n)
	deleteRollout(t, n, "api")
	requests := deleted.requests()
	goesOn.end("passed")
	n.AwaitHealthy("next", e2etest.Image("yellow"))

	if all := deleted.all(); len(all) != 1 || all[0].Status != "running" || deleted.requests() != requests {
		t.Errorf("runs of the Rollout that was deleted: %+v, and %d requests since", all, deleted.requests()-requests)
	}
	if now := controllertest.Process(t, program); now != plugin {
		t.Errorf("the plugin is process %d, it was %d", now, plugin)
	}
}
