package keda

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/checktest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffictest"
)

// The names in examples/scaling.
const (
	app           = "rollouts-demo"
	stableService = app + "-stable"
	canaryService = app + "-canary"
)

// applySample applies examples/scaling for a host, with short windows and waits.
func applySample(t *testing.T, n *e2etest.Namespace, host string, minimum int) {
	t.Helper()
	shorter := strings.NewReplacer(
		app+".example.com", host,
		"window: 1m", "window: 10s",
		"cooldownPeriod: 120", "cooldownPeriod: 5",
		"pollingInterval: 10", "pollingInterval: 2",
		"minReplicaCount: 0", fmt.Sprintf(`minReplicaCount: %d
  advanced:
    horizontalPodAutoscalerConfig:
      behavior:
        scaleDown:
          stabilizationWindowSeconds: 0
          policies: [{type: Pods, value: 10, periodSeconds: 1}]`, minimum),
	)
	for _, name := range []string{"services", "rollout", "httpscaledobject", "scaledobject"} {
		text, err := os.ReadFile(filepath.Join("../../../examples/scaling", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		n.Apply(shorter.Replace(string(text)))
	}
	n.Kubectl("wait", "--for=condition=Ready", "--timeout=2m", "scaledobject/"+app)
}

// awaitReplicas waits until KEDA has set the Rollout's replicas, and all are there.
func awaitReplicas(n *e2etest.Namespace, want int32) {
	n.AwaitRollout(app, fmt.Sprint(want, " replicas"), func(r *v1alpha1.Rollout) error {
		if got := ptr.Deref(r.Spec.Replicas, -1); got != want || r.Status.AvailableReplicas < want {
			return fmt.Errorf("its replicas are %d, available %d", got, r.Status.AvailableReplicas)
		}
		return nil
	})
}

// awaitNoPods waits until KEDA has scaled the Rollout to zero, and its pods have gone.
func awaitNoPods(t *testing.T, n *e2etest.Namespace) {
	t.Helper()
	awaitReplicas(n, 0)
	for _, service := range []string{stableService, canaryService} {
		e2etest.Eventually(t, e2etest.Patience, "no endpoints of Service "+service, func(ctx context.Context) error {
			slices, err := n.Kube.DiscoveryV1().EndpointSlices(n.Name).List(ctx, metav1.ListOptions{
				LabelSelector: discoveryv1.LabelServiceName + "=" + service,
			})
			if err != nil {
				return err
			}
			for _, slice := range slices.Items {
				if len(slice.Endpoints) > 0 {
					return fmt.Errorf("there are %d", len(slice.Endpoints))
				}
			}
			return nil
		})
	}
}

// get returns the colour that answers a request, which may wait for a pod.
func get(t *testing.T, p traffictest.Proxy, host string) string {
	t.Helper()
	status, body := answer(t, p, host)
	if status != http.StatusOK {
		t.Fatalf("answered %d %s", status, body)
	}
	return strings.Trim(body, `"`)
}

// answer returns the status and the body of the answer to a request.
func answer(t *testing.T, p traffictest.Proxy, host string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), e2etest.Patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+"/color", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := p.Client(t).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// A Rollout without pods is woken up by a request, which waits for the first pod. So is
// one whose canary is in a pause: the split returns with its pods.
func TestARequestWakesARollout(t *testing.T) {
	t.Parallel()
	traffictest.Both(t, func(t *testing.T, n *e2etest.Namespace, p traffictest.Proxy) {
		host := n.Name + ".test"
		applySample(t, n, host, 0)
		p.AwaitConfigured(t, app)
		awaitNoPods(t, n)
		if colour := get(t, p, host); colour != "blue" {
			t.Errorf("a held request is answered by %s", colour)
		}

		load := traffictest.StartLoadAt(t, p, host, 8)
		n.SetImage(app, e2etest.Image("yellow"))
		n.AwaitPaused(app, 1)
		p.AwaitShares(t, app, map[string]int{stableService: 80, canaryService: 20})
		load.AwaitBoth("blue", "yellow")
		checktest.AwaitHealthy(t, app, "-n", n.Name)
		load.Finish(nil, "blue", "yellow")

		awaitNoPods(t, n)
		if colour := get(t, p, host); colour != "blue" && colour != "yellow" {
			t.Errorf("a held request is answered by %s", colour)
		}
		load = traffictest.StartLoadAt(t, p, host, 8)
		load.AwaitBoth("blue", "yellow")
		load.AwaitShare("yellow", 20)
		load.Finish(nil, "blue", "yellow")

		// One that comes while the last pods end gets an answer, too, theirs or a new one's. On
		// a busy machine a pod may be listed as ready for more than the two seconds that a
		// request waits after the pod has exited. Then it is 502, and the next request is held.
		awaitReplicas(n, 0)
		status, body := answer(t, p, host)
		for deadline := time.Now().Add(e2etest.Patience); status == http.StatusBadGateway &&
			strings.Contains(body, "the application cannot be connected to") && time.Now().Before(deadline); {
			status, body = answer(t, p, host)
		}
		if status != http.StatusOK {
			t.Errorf("answered %d %s", status, body)
		}
	})
}

// 40 requests a second, 5 of them for a pod, bring 8 pods, and few requests 2 again,
// while a canary has 20 %. No request is lost.
func TestARolloutFollowsItsRequests(t *testing.T) {
	t.Parallel()
	traffictest.Both(t, func(t *testing.T, n *e2etest.Namespace, p traffictest.Proxy) {
		host := n.Name + ".test"
		applySample(t, n, host, 2)
		p.AwaitConfigured(t, app)
		awaitReplicas(n, 2)
		n.SetImage(app, e2etest.Image("yellow"))
		n.AwaitPaused(app, 1)

		// One request at a time would fall behind the rate on a busy machine.
		load := traffictest.StartParallelLoadAt(t, p, host, 40)
		awaitReplicas(n, 8)
		traffictest.AwaitEndpoints(t, n, stableService, 8)
		load.Finish(nil, "blue", "yellow")

		load = traffictest.StartLoadAt(t, p, host, 8)
		load.RequireShare("yellow", 20)
		awaitReplicas(n, 2)
		traffictest.AwaitEndpoints(t, n, stableService, 2)
		load.Finish(nil, "blue", "yellow")
	})
}
