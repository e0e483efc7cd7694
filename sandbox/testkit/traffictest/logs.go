package traffictest

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/interceptor/interceptortest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// logLines is how many lines of each log are shown.
const logLines = 100

// tellOnFailure shows the end of the proxies' logs if the test has failed: of the
// Envoys in its namespace all lines, of the interceptors those about the namespace.
func tellOnFailure(t testing.TB, n *e2etest.Namespace) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		// The test's own context has ended.
		ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
		defer cancel()
		tell(ctx, t, n, n.Name, "app.kubernetes.io/name=kedify-proxy", "")
		tell(ctx, t, n, interceptortest.Namespace, "app.kubernetes.io/name="+interceptortest.Deployment, n.Name)
	})
}

// tell shows the end of the logs of the selected pods: the lines that contain about, or
// all lines if about is empty.
func tell(ctx context.Context, t testing.TB, n *e2etest.Namespace, namespace, selector, about string) {
	pods, err := n.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		t.Logf("pods %s of namespace %s: %v", selector, namespace, err)
		return
	}
	for _, pod := range pods.Items {
		log, err := n.Kube.CoreV1().Pods(namespace).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(ctx)
		if err != nil {
			t.Logf("log of pod %s: %v", pod.Name, err)
			continue
		}
		var lines []string
		for line := range strings.Lines(string(log)) {
			// Envoy begins its log with a list of its extensions.
			if strings.Contains(line, about) && !strings.Contains(line, "[source/server/server.cc:") {
				lines = append(lines, line)
			}
		}
		lines = lines[max(0, len(lines)-logLines):]
		t.Logf("pod %s, since %s, says:\n%s", pod.Name, pod.CreationTimestamp.UTC().Format(time.TimeOnly), strings.Join(lines, ""))
	}
}
