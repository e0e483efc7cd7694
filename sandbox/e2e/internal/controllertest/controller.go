// Package controllertest is what end-to-end tests know of the Argo Rollouts controller
// that they disturb: how to restart it, its configuration, its permissions, its
// processes and its log. All tests of a sandbox share it, so those that use this
// package run one after the other.
package controllertest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/e2etest"
)

// The guide's commands: RestartCommand replaces the controller's pod, StatusCommand
// returns when the Deployment has done so.
const (
	RestartCommand = "kubectl -n argo-rollouts rollout restart deploy/argo-rollouts"
	StatusCommand  = "kubectl -n argo-rollouts rollout status deploy/argo-rollouts --timeout=110s"
)

// Restart restarts the controller with the guide's commands, waits until the new one
// is all there is, and returns its pod.
func Restart(t testing.TB) corev1.Pod {
	t.Helper()
	e2etest.Shell(t, RestartCommand)
	e2etest.Shell(t, StatusCommand)
	return Await(t)
}

// Await waits until there is one pod of the controller, and it is ready, and returns
// it.
func Await(t testing.TB) corev1.Pod {
	t.Helper()
	var ready corev1.Pod
	c := e2etest.Connect(t)
	e2etest.Eventually(t, e2etest.Patience, "one controller, ready", func(ctx context.Context) error {
		pods, err := Pods(ctx, c)
		if err != nil {
			return err
		}
		if len(pods) != 1 {
			return fmt.Errorf("there are %d pods", len(pods))
		}
		ready = pods[0]
		for _, status := range ready.Status.ContainerStatuses {
			if !status.Ready {
				return fmt.Errorf("pod %s is not ready: %+v", ready.Name, status.State)
			}
		}
		if len(ready.Status.ContainerStatuses) == 0 {
			return errors.New("it has not started")
		}
		return nil
	})
	return ready
}

// Pods returns the controller's pods, those on their way out among them.
func Pods(ctx context.Context, c *e2etest.Cluster) ([]corev1.Pod, error) {
	list, err := c.Kube.CoreV1().Pods(e2etest.ControllerNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Log returns the log of the present controller, and, where its
// container was restarted, of the run before.
func Log(t testing.TB, pod corev1.Pod) string {
	t.Helper()
	log := e2etest.Shell(t, "kubectl -n argo-rollouts logs "+pod.Name)
	if e2etest.Restarts(pod) > 0 {
		log = e2etest.Shell(t, "kubectl -n argo-rollouts logs --previous "+pod.Name) + log
	}
	return log
}

// Scale sets the controller's replicas, 0 or 1, and waits until it is so. When the
// test ends there is one again.
func Scale(t testing.TB, replicas int) {
	t.Helper()
	t.Cleanup(func() {
		if _, err := e2etest.TryShell(context.Background(), "kubectl -n argo-rollouts scale deploy/argo-rollouts --replicas=1 && "+StatusCommand); err != nil {
			t.Errorf("scaling the controller up: %v", err)
		}
	})
	e2etest.Shell(t, fmt.Sprintf("kubectl -n argo-rollouts scale deploy/argo-rollouts --replicas=%d", replicas))
	if replicas > 0 {
		Await(t)
		return
	}
	cluster := e2etest.Connect(t)
	e2etest.Eventually(t, e2etest.Patience, "no controller", func(ctx context.Context) error {
		pods, err := Pods(ctx, cluster)
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("there are %d pods", len(pods))
		}
		return err
	})
}
