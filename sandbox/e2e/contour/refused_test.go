package contour

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/canarytest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// canaryAt is a JSON patch that gives the canary of routeManifest a weight.
func canaryAt(weight int) string {
	return fmt.Sprintf(`[{"op":"replace","path":"/spec/rules/0/backendRefs/1/weight","value":%d}]`, weight)
}

// canaryWeights is a CEL expression that is true for a route if another one is true for
// each weight, w, of the canary.
func canaryWeights(expression string) string {
	return `object.spec.rules.all(r, r.backendRefs.filter(b, b.name == "app-canary").map(b, b.weight).all(w, ` + expression + `))`
}

// The API server refuses a weight above 20. The route stays at 20, an Event says why, and
// the step is held, while the background analysis goes on: when it fails, it aborts the
// Rollout, and all traffic goes back to stable.
func TestRefusedWeightDoesNotStopTheAnalysis(t *testing.T) {
	t.Parallel()
	var bad atomic.Bool
	url := e2etest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"ok": %t}`, !bad.Load())
	}))
	app := e2etest.App{Canary: "analysis:\n  templates:\n    - templateName: answers\n", Steps: twoPauses}
	c := startCanary(t, app, routeManifest+"---"+canarytest.AnalysisTemplate(url))
	before := routeOf(t, c.Namespace, name)
	record := recordWeights(t, c.Namespace, name)
	c.SetImage(name, e2etest.Image("yellow"))
	c.AwaitPaused(name, 1)
	requireWeights(t, c.Namespace, name, "80/20")

	refuse(t, c.Namespace, canaryWeights("w <= 20"), name, canaryAt(60))
	c.Promote(name)
	event := c.AwaitEvent("Rollout", name, "TrafficRoutingError", "HTTPRoute "+c.Name+"/app", policyMessage, "abort")
	t.Log(event.Message)
	c.AwaitHeld(name, 2)
	requireWeights(t, c.Namespace, name, "80/20")
	bad.Store(true)
	c.AwaitAborted(name)
	awaitRest(t, c.Namespace, before)
	record.requireWeights("100/0", "80/20", "100/0")
}

// With dynamicStableScale an abort begins at the weight of the canary, and the controller
// makes pods of stable only after that weight is set. The API server refuses it, as every
// weight but 0, and somebody has set the route back to stable: the abort goes on all the
// same, and ends with all traffic on stable.
func TestRefusedWeightOfAnAbort(t *testing.T) {
	t.Parallel()
	app := e2etest.App{Canary: "dynamicStableScale: true", Steps: "- setWeight: 100\n- pause: {}\n"}
	c := startCanary(t, app, routeManifest)
	before := routeOf(t, c.Namespace, name)
	c.SetImage(name, e2etest.Image("yellow"))
	c.AwaitPaused(name, 1)
	requireWeights(t, c.Namespace, name, "0/100")
	c.awaitStableReplicas(t, 0)

	refuse(t, c.Namespace, canaryWeights("w == 0"), name, canaryAt(50))
	record := recordWeights(t, c.Namespace, name)
	c.Apply(c.route)
	c.Abort(name)
	c.AwaitAborted(name)
	c.awaitStableReplicas(t, 1)
	awaitRest(t, c.Namespace, before)
	record.requireWeights("0/100", "100/0")
}

// awaitStableReplicas waits until the stable ReplicaSet has so many pods.
func (c canary) awaitStableReplicas(t *testing.T, want int32) {
	t.Helper()
	stable := name + "-" + c.Rollout(name).Status.StableRS
	e2etest.Eventually(t, e2etest.Patience, fmt.Sprintf("%d pods of the stable version", want), func(ctx context.Context) error {
		set, err := c.Kube.AppsV1().ReplicaSets(c.Name).Get(ctx, stable, metav1.GetOptions{})
		if err == nil && set.Status.Replicas != want {
			err = fmt.Errorf("there are %d", set.Status.Replicas)
		}
		return err
	})
}
