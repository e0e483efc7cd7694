package keda

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/keda"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/scaler"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffictest"
)

// counted is the manifest of an HTTPScaledObject and a ScaledObject, which keep one
// pod whatever the figure is.
func counted(name, host, service, metric string, window time.Duration) string {
	return traffictest.Object{Name: name, Hosts: []string{host}, Service: service}.Manifest() + fmt.Sprintf(`---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: %[1]s
spec:
  minReplicaCount: 1
  maxReplicaCount: 1
  scaleTargetRef:
    name: %[2]s
  triggers:
    - type: external-push
      metadata:
        scalerAddress: %[3]s.%[4]s:9090
        scalingMetric: %[5]s
        targetValue: "100000"
        window: %[6]s
`, name, service, scaler.Deployment, keda.Namespace, metric, window)
}

// The figure that the HPA gets is the rate of the requests, within 5 %, slow or fast,
// or how many are under way.
func TestTheFigureIsWhatWasSent(t *testing.T) {
	t.Parallel()
	const window = 30 * time.Second
	for name, tc := range map[string]struct {
		metric  string
		options traffic.Options
		// want is 0 for the rate that the load has.
		want float64
	}{
		"10 a second":             {metric: "requestRate", options: traffic.Options{Rate: 10, Connections: 2}},
		"1000 a second":           {metric: "requestRate", options: traffic.Options{Rate: 1000, Connections: 16}},
		"50 at a time, 10 s each": {metric: "concurrency", options: traffic.Options{Connections: 50}, want: 50},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			traffictest.Both(t, func(t *testing.T, n *e2etest.Namespace, p traffictest.Proxy) {
				host := n.Name + ".test"
				deployment := traffictest.Deployment("stable", "blue", 1)
				if tc.want != 0 {
					deployment = slower(deployment)
				}
				n.Apply(deployment + counted("app", host, "stable", tc.metric, window))
				n.Kubectl("wait", "--for=condition=Ready", "--timeout=2m", "scaledobject/app")
				traffictest.AwaitEndpoints(t, n, "stable", 1)
				p.AwaitConfigured(t, "app")

				options := tc.options
				options.Target, options.Host, options.Timeout = p.Address, host, time.Minute
				load, err := traffic.Start(options)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { load.Stop() })
				want := func() float64 { return tc.want }
				if tc.want == 0 {
					want = func() float64 { return sentRate(load, window) }
				}
				awaitFigure(t, n, "app", window, want, 5)
			})
		})
	}
}

// sentRate is how many requests a second a load has sent in a window that ends now.
func sentRate(load *traffic.Load, window time.Duration) float64 {
	begin := time.Now().Add(-window)
	sent := 0
	for _, a := range load.Since(0) {
		if a.Sent.After(begin) {
			sent++
		}
	}
	return float64(sent) / window.Seconds()
}

// slower makes each answer of a Deployment take ten seconds.
func slower(deployment string) string {
	return strings.Replace(deployment, "          ports:", "          env: [{name: LATENCY, value: \"10\"}]\n          ports:", 1)
}
