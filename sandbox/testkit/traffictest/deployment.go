package traffictest

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// Deployment returns the manifest of a Deployment whose pods answer with a colour, and
// of its Service, both with a name. A deleted pod goes on serving for a while, as it
// has to if its server closes idle connections on SIGTERM: a request that is sent on
// such a connection at that moment is lost, unless it is safe to repeat.
func Deployment(name, colour string, replicas int) string {
	return e2etest.Service(name, name) + fmt.Sprintf(`---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: %[1]s
spec:
  replicas: %[3]d
  selector:
    matchLabels:
      app: %[1]s
  template:
    metadata:
      labels:
        app: %[1]s
    spec:
      terminationGracePeriodSeconds: 10
      containers:
        - name: app
          image: %[2]s
          ports:
            - containerPort: 8080
          readinessProbe:
            httpGet:
              path: /healthz
              port: 8080
            periodSeconds: 1
          lifecycle:
            preStop:
              sleep:
                seconds: 3
`, name, e2etest.Image(colour), replicas)
}

// AwaitEndpoints waits until a Service has count ready endpoints.
func AwaitEndpoints(t testing.TB, n *e2etest.Namespace, service string, count int) {
	t.Helper()
	what := fmt.Sprintf("%d ready endpoints of Service %s", count, service)
	e2etest.Eventually(t, e2etest.Patience, what, func(ctx context.Context) error {
		slices, err := n.Kube.DiscoveryV1().EndpointSlices(n.Name).List(ctx, metav1.ListOptions{
			LabelSelector: discoveryv1.LabelServiceName + "=" + service,
		})
		if err != nil {
			return err
		}
		ready := 0
		for _, slice := range slices.Items {
			for _, endpoint := range slice.Endpoints {
				if endpoint.Conditions.Ready != nil && *endpoint.Conditions.Ready {
					ready++
				}
			}
		}
		if ready != count {
			return fmt.Errorf("there are %d", ready)
		}
		return nil
	})
}

// PodsOf returns the pods of an app that are not terminating.
func PodsOf(t testing.TB, n *e2etest.Namespace, app string) []corev1.Pod {
	t.Helper()
	list, err := n.Kube.CoreV1().Pods(n.Name).List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		t.Fatal(err)
	}
	var pods []corev1.Pod
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil {
			pods = append(pods, pod)
		}
	}
	return pods
}
