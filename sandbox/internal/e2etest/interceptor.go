package e2etest

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/build"
)

// Where the interceptor lives, as deploy/interceptor has it.
const (
	InterceptorNamespace      = "keda"
	InterceptorDeployment     = "keda-add-ons-http-interceptor"
	InterceptorServiceAccount = "keda-add-ons-http-interceptor"
	// InterceptorClusterRole is the name of its ClusterRole and of its binding.
	InterceptorClusterRole = "keda-add-ons-http-interceptor"
)

// InterceptorReplicas is how many interceptors serve in the sandbox.
const InterceptorReplicas = 2

// URLs of the interceptor's Services, without a slash at their ends. Each
// connection goes to one of the replicas.
const (
	InterceptorURL        = "http://" + InterceptorDeployment + "-proxy." + InterceptorNamespace + ".svc.cluster.local:8080"
	InterceptorAdminURL   = "http://" + InterceptorDeployment + "-admin." + InterceptorNamespace + ".svc.cluster.local:9090"
	InterceptorMetricsURL = "http://" + InterceptorDeployment + "-admin." + InterceptorNamespace + ".svc.cluster.local:2223"
)

// Interceptor waits until all replicas of the interceptor, which the tests of a
// package share, are ready, and returns their pods.
func Interceptor(t testing.TB) []corev1.Pod {
	t.Helper()
	return Connect(t).awaitReplicas(t, InterceptorNamespace, InterceptorDeployment, InterceptorReplicas)
}

// KedifyProxyReplicas is how many kedify-proxies ApplyKedifyProxy starts.
const KedifyProxyReplicas = 2

// KedifyProxy is the Envoys of a namespace.
type KedifyProxy struct {
	// URL and AdminURL are those of the Services kedify-proxy and
	// kedify-proxy-admin, without a slash at their ends.
	URL, AdminURL string

	n *Namespace
}

// ApplyKedifyProxy applies deploy/kedify-proxy to the namespace, and waits until
// all of its Envoys are ready: configured by the interceptor.
func (n *Namespace) ApplyKedifyProxy() *KedifyProxy {
	n.t.Helper()
	root, err := build.FindRepository()
	if err != nil {
		n.t.Fatal(err)
	}
	n.Kubectl("apply", "--server-side", "-k", filepath.Join(root, "deploy", "kedify-proxy"))
	host := "." + n.Name + ".svc.cluster.local"
	p := &KedifyProxy{URL: "http://kedify-proxy" + host + ":8080", AdminURL: "http://kedify-proxy-admin" + host + ":9901", n: n}
	p.Pods()
	return p
}

// Pods waits until all kedify-proxies are ready, and returns their pods.
func (p *KedifyProxy) Pods() []corev1.Pod {
	p.n.t.Helper()
	return p.n.awaitReplicas(p.n.t, p.n.Name, "kedify-proxy", KedifyProxyReplicas)
}

// PodURL returns the URL of a port of a pod, without a slash at its end.
func PodURL(pod corev1.Pod, port int) string {
	return "http://" + net.JoinHostPort(pod.Status.PodIP, fmt.Sprint(port))
}

// awaitReplicas waits until a Deployment has as many pods as it should, all of
// them ready and none on its way out, and returns them.
func (c *Cluster) awaitReplicas(t testing.TB, namespace, name string, replicas int) []corev1.Pod {
	t.Helper()
	var pods []corev1.Pod
	Eventually(t, Patience, fmt.Sprintf("%d ready pods of Deployment %s/%s", replicas, namespace, name), func(ctx context.Context) error {
		deployment, err := c.Kube.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("%w; a sandbox of one's own is brought up with --with interceptor", err)
		}
		list, err := c.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(deployment.Spec.Selector)})
		if err != nil {
			return err
		}
		pods = list.Items
		var ready int
		for _, pod := range pods {
			if pod.DeletionTimestamp == nil && podReady(pod) {
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

func podReady(pod corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
