package traffictest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// Kill ends the processes of pods with SIGKILL, all at once and without warning, and
// returns when the last of them is gone. The node starts them again.
func Kill(t testing.TB, pods ...corev1.Pod) (gone time.Time) {
	t.Helper()
	for _, pod := range pods {
		e2etest.AllowRestarts(t, pod.Namespace, pod.Name)
	}
	return KillUnannounced(t, pods...)
}

// AwaitRestart waits until pods that were read before they were killed have been
// started again and are ready. Until then a Service may send new connections to them,
// which are refused.
func AwaitRestart(t testing.TB, pods ...corev1.Pod) {
	t.Helper()
	kube := e2etest.Connect(t).Kube
	for _, pod := range pods {
		before := e2etest.Restarts(pod)
		e2etest.Eventually(t, e2etest.Patience, fmt.Sprintf("pod %s started again", pod.Name), func(ctx context.Context) error {
			now, err := kube.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if e2etest.Restarts(*now) == before || !cluster.PodReady(now) {
				return fmt.Errorf("its status: %+v", now.Status)
			}
			return nil
		})
	}
}

// KillUnannounced is Kill without AllowRestarts, which fails the test run.
func KillUnannounced(t testing.TB, pods ...corev1.Pod) (gone time.Time) {
	t.Helper()
	var ids []int
	for _, pod := range pods {
		of, err := processes(pod.Name)
		if err != nil || len(of) == 0 {
			t.Fatalf("processes of pod %s: %v, %v", pod.Name, of, err)
		}
		ids = append(ids, of...)
	}
	for _, id := range ids {
		e2etest.KillProcess(t, id)
	}
	for _, id := range ids {
		e2etest.AwaitProcessEnd(t, id)
	}
	return time.Now()
}

// processes returns the ids, valid for signals from this test, of the processes of a
// pod: those whose host name is the name of the pod.
func processes(pod string) ([]int, error) {
	return e2etest.Processes(func(dir string) bool {
		environment, err := os.ReadFile(filepath.Join(dir, "environ"))
		return err == nil && slices.Contains(strings.Split(string(environment), "\x00"), "HOSTNAME="+pod)
	})
}
