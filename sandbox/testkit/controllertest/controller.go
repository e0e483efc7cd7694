// Package controllertest is for end-to-end tests that disturb the Argo Rollouts
// controller: they restart it, change its configuration and its permissions, kill its
// processes and read its log. All tests of a sandbox share the controller, so those
// that disturb it run one after the other.
package controllertest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// The guide's commands: RestartCommand replaces the controller's pod, StatusCommand
// returns when the Deployment has done so.
const (
	RestartCommand = "kubectl -n argo-rollouts rollout restart deploy/argo-rollouts"
	StatusCommand  = "kubectl -n argo-rollouts rollout status deploy/argo-rollouts --timeout=110s"
)

// Restart restarts the controller with the guide's commands, waits until only the new
// one is left, and returns its pod.
func Restart(t testing.TB) corev1.Pod {
	t.Helper()
	if err := restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	e2etest.Shell(t, StatusCommand)
	return Await(t)
}

// restart runs RestartCommand. kubectl refuses it within a second of the last one, which may
// have been the test before.
func restart(ctx context.Context) error {
	return e2etest.Poll(ctx, 10*time.Second, func(ctx context.Context) error {
		_, err := e2etest.TryShell(ctx, RestartCommand)
		return err
	})
}

// Await waits until the controller has exactly one pod and this is ready, and returns
// it. It releases the Lease of a previous controller that has ended, so that the new
// one begins to work within some 4 s.
func Await(t testing.TB) corev1.Pod {
	t.Helper()
	return AwaitIn(t, e2etest.ControllerNamespace)
}

// AwaitIn is Await for a controller in a namespace with no other pods.
func AwaitIn(t testing.TB, namespace string) corev1.Pod {
	t.Helper()
	pod, err := tryAwait(t.Context(), e2etest.Connect(t), namespace)
	if err != nil {
		t.Fatalf("one controller in namespace %s, ready: not within %s: %v", namespace, e2etest.Patience, err)
	}
	return pod
}

func tryAwait(ctx context.Context, c *e2etest.Cluster, namespace string) (ready corev1.Pod, err error) {
	err = e2etest.Poll(ctx, e2etest.Patience, func(ctx context.Context) error {
		pods, err := podsIn(ctx, c, namespace)
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
		return releaseLease(ctx, c, namespace)
	})
	return ready, err
}

// Pods returns the controller's pods, including those that are terminating.
func Pods(ctx context.Context, c *e2etest.Cluster) ([]corev1.Pod, error) {
	return podsIn(ctx, c, e2etest.ControllerNamespace)
}

func podsIn(ctx context.Context, c *e2etest.Cluster, namespace string) ([]corev1.Pod, error) {
	list, err := c.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
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

// AwaitLog waits until the log of a controller contains a text.
func AwaitLog(t testing.TB, pod corev1.Pod, text string) string {
	t.Helper()
	var log string
	e2etest.Eventually(t, e2etest.Patience, fmt.Sprintf("%q in the log of pod %s", text, pod.Name), func(ctx context.Context) (err error) {
		if log, err = e2etest.TryShell(ctx, "kubectl -n argo-rollouts logs "+pod.Name); err == nil && !strings.Contains(log, text) {
			err = fmt.Errorf("it has not:\n%s", e2etest.LinesWith(log, "lugin"))
		}
		return err
	})
	return log
}

// Scale sets the controller's replicas, 0 or 1, and waits until the pods match. After a
// 0 the controller is scaled up again when the test ends.
func Scale(t testing.TB, replicas int) {
	t.Helper()
	const line = "kubectl -n argo-rollouts scale deploy/argo-rollouts --replicas="
	if replicas > 0 {
		e2etest.Shell(t, line+strconv.Itoa(replicas))
		Await(t)
		return
	}
	PutBack(t, "scaling the controller up", func(ctx context.Context) error {
		_, err := e2etest.TryShell(ctx, line+"1")
		return err
	})
	e2etest.Shell(t, line+"0")
	c := e2etest.Connect(t)
	e2etest.Eventually(t, e2etest.Patience, "no controller", func(ctx context.Context) error {
		pods, err := Pods(ctx, c)
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("there are %d pods", len(pods))
		}
		if err == nil {
			err = releaseLease(ctx, c, e2etest.ControllerNamespace)
		}
		return err
	})
}

// PutBack calls change when the test ends, to put something of the controller back, and
// then waits as StatusCommand and Await do. An error fails the test, with what in the
// message to describe the change.
func PutBack(t testing.TB, what string, change func(context.Context) error) {
	t.Helper()
	c := e2etest.Connect(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), e2etest.Patience)
		defer cancel()
		err := change(ctx)
		_, statusErr := e2etest.TryShell(ctx, StatusCommand)
		_, awaitErr := tryAwait(ctx, c, e2etest.ControllerNamespace)
		if err := errors.Join(err, statusErr, awaitErr); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	})
}
