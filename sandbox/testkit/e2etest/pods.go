package e2etest

import (
	"context"
	"fmt"
	"net"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

// PodURL returns the URL of a port of a pod, without a slash at its end.
func PodURL(pod corev1.Pod, port int) string {
	return "http://" + net.JoinHostPort(pod.Status.PodIP, fmt.Sprint(port))
}

// AwaitReplicas waits until a Deployment has as many pods as it should, all of
// them ready and none on its way out, and returns them.
func (c *Cluster) AwaitReplicas(t testing.TB, namespace, name string, replicas int) []corev1.Pod {
	t.Helper()
	var pods []corev1.Pod
	Eventually(t, Patience, fmt.Sprintf("%d ready pods of Deployment %s/%s", replicas, namespace, name), func(ctx context.Context) error {
		deployment, err := c.Kube.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("%w; was the sandbox brought up with its add-on?", err)
		}
		list, err := c.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(deployment.Spec.Selector)})
		if err != nil {
			return err
		}
		pods = list.Items
		var ready int
		for _, pod := range pods {
			if pod.DeletionTimestamp == nil && cluster.PodReady(&pod) {
				ready++
			}
		}
		if ready != replicas || len(pods) != replicas {
			return fmt.Errorf("%d of %d pods are ready", ready, len(pods))
		}
		return nil
	})
	return pods
}
