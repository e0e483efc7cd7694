package proxies

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/interceptor/interceptortest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffictest"
)

// TestTrafficInterceptorWithoutAPIServer cuts the API server off from one interceptor of two.
// Its Envoys go to the other one, and follow an abort there, and so do the clients of the
// embedded proxy. No request fails.
func TestTrafficInterceptorWithoutAPIServer(t *testing.T) {
	s := traffictest.StartApp(t)
	var cut corev1.Pod
	for _, pod := range interceptortest.Pods(t) {
		if got, err := e2etest.Get(t.Context(), e2etest.PodURL(pod, 2223)+"/metrics", ""); err != nil || !strings.Contains(got, "\ninterceptor_xds_streams 0\n") {
			cut = pod // an Envoy is there
		}
	}
	throughEnvoy := traffictest.StartLoad(t, s.Envoy, s.Host)
	load := traffictest.StartParallelLoad(t, s.Embedded, s.Host)
	load.AwaitBoth("blue", "yellow")

	restore := traffictest.CutOffAPIServer(t, cut)
	e2etest.Eventually(t, e2etest.Patience, "the interceptor is withdrawn", func(ctx context.Context) error {
		got, err := e2etest.Ask(ctx, e2etest.PodURL(cut, 9090)+"/readyz", "")
		if err == nil && (got.Status != http.StatusServiceUnavailable || !strings.HasPrefix(got.Body, "withdrawn")) {
			err = fmt.Errorf("/readyz answers %d %s", got.Status, got.Body)
		}
		return err
	})
	traffictest.Split(t, s.Namespace, "app", e2etest.Weight{Service: "stable", Weight: 100}, e2etest.Weight{Service: "canary", Weight: 0})
	s.Envoy.AwaitShares(t, "app", map[string]int{"stable": 100})
	throughEnvoy.RequireOnly("blue")
	load.AwaitShare("yellow", 0)
	throughEnvoy.Finish(nil, "blue", "yellow")
	load.Finish(nil, "blue", "yellow")

	restore()
	// It would serve again half a minute later: later tests need not wait.
	traffictest.Kill(t, cut)
	traffictest.AwaitRestart(t, cut)
	s.Embedded.AwaitShares(t, "app", map[string]int{"stable": 100})
}
