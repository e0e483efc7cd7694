package keda

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffictest"
)

// KEDA works in the sandbox: its operator scales a Deployment from 0 and to 0 again by
// a figure, and in between the HorizontalPodAutoscaler reads that figure from KEDA's
// metrics server, through the API server.
func TestDeploymentFollowsAFigure(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	var figure atomic.Int64
	url := e2etest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"figure": %d}`, figure.Load())
	}))
	n.Apply(traffictest.Deployment("app", "blue", 0) + scaledObject("app", "app", url))
	n.Kubectl("wait", "--for=condition=Ready", "--timeout=1m", "scaledobject/app")

	figure.Store(20)
	traffictest.AwaitEndpoints(t, n, "app", 4)
	e2etest.Eventually(t, e2etest.Patience, "an HPA that has read 20 in all, 5 a pod", func(ctx context.Context) error {
		hpa, err := n.Kube.AutoscalingV2().HorizontalPodAutoscalers(n.Name).Get(ctx, "keda-hpa-app", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, metric := range hpa.Status.CurrentMetrics {
			if e := metric.External; e != nil && e.Current.AverageValue != nil && e.Current.AverageValue.Value() == 5 {
				return nil
			}
		}
		return fmt.Errorf("its status is %+v", hpa.Status)
	})

	figure.Store(0)
	traffictest.AwaitEndpoints(t, n, "app", 0)
}

// A second ScaledObject for a workload is refused by KEDA's admission webhook.
func TestASecondScaledObjectIsRefused(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	const url = "http://127.0.0.1:1"
	n.Apply(traffictest.Deployment("app", "blue", 0) + scaledObject("first", "app", url))
	// The webhook reads ScaledObjects from a cache.
	e2etest.Eventually(t, e2etest.Patience, "an admission webhook that refuses it", func(ctx context.Context) error {
		err := n.TryApply(ctx, scaledObject("second", "app", url))
		switch {
		case err == nil:
			n.Kubectl("delete", "scaledobject", "second")
			return errors.New("it was admitted")
		case !strings.Contains(err.Error(), "already managed by the ScaledObject 'first'"):
			return err
		}
		return nil
	})
}

// scaledObject returns the manifest of a ScaledObject that scales a Deployment to a
// pod for each 5 of the figure at a URL, to 10 pods at most.
func scaledObject(name, deployment, url string) string {
	return fmt.Sprintf(`---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: %s
spec:
  scaleTargetRef:
    name: %s
  pollingInterval: 1
  cooldownPeriod: 1
  minReplicaCount: 0
  maxReplicaCount: 10
  advanced:
    horizontalPodAutoscalerConfig:
      behavior:
        scaleDown:
          stabilizationWindowSeconds: 0
  triggers:
    - type: metrics-api
      metadata:
        url: %s
        valueLocation: figure
        targetValue: "5"
`, name, deployment, url)
}
