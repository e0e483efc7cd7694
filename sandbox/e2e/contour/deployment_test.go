package contour

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffictest"
)

// ofDeployment is the Rollout that takes a Deployment over.
const ofDeployment = `
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata:
  name: app
spec:
  replicas: 2
  selector:
    matchLabels: {app: app}
  workloadRef:
    apiVersion: apps/v1
    kind: Deployment
    name: app
    scaleDown: onsuccess
  strategy:
    canary:
      stableService: app
      canaryService: app-canary
      trafficRouting:
        plugins:
          argoproj-labs/gatewayAPI: {httpRoute: app}
      steps:
        - setWeight: 20
        - pause: {}
`

// A Deployment behind a Gateway becomes a Rollout under load, by the steps of
// docs/how-to/migrate-deployment.md: a Service for the canary, which the route names
// with weight 0; a Rollout that refers to the Deployment; and a new image in the
// Deployment starts a canary. No request is lost.
func TestDeploymentBecomesARollout(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	c := canary{Namespace: n, host: n.Name + ".test", proxy: gateway(t)}
	n.Apply(traffictest.Deployment(name, "blue", 2) + "---" + fill(changed(t, stableRoute, "app-stable", "app"), c.host))
	traffictest.AwaitEndpoints(t, n, "app", 2)
	c.awaitServed(t)
	load := startLoad(t, c.proxy, c.host)
	load.RequireOnly("blue")

	n.Apply(e2etest.Service("app-canary", name))
	n.Apply(fill(changed(t, routeManifest, "app-stable", "app"), c.host))
	before := routeOf(t, n, name)
	n.Apply(ofDeployment)
	c.awaitStable(t)
	e2etest.Eventually(t, e2etest.Patience, "the Deployment has no pods", func(ctx context.Context) error {
		deployment, err := n.Kube.AppsV1().Deployments(n.Name).Get(ctx, name, metav1.GetOptions{})
		if err == nil && deployment.Status.Replicas != 0 {
			err = fmt.Errorf("it has %d", deployment.Status.Replicas)
		}
		return err
	})
	load.RequireOnly("blue")
	awaitRest(t, n, before)

	n.Kubectl("set", "image", "deployment/"+name, "app="+e2etest.Image("yellow"))
	n.AwaitPaused(name, 1)
	requireWeights(t, n, name, "80/20")
	load.AwaitShareWithin("yellow", 20, margin)
	n.Promote(name)
	c.awaitStable(t)
	awaitRest(t, n, before)
	awaitOnly(t, load, "yellow")
	load.Finish(nil, "blue", "yellow")
}

// awaitStable waits until the Rollout is healthy with all of it the stable version.
func (c canary) awaitStable(t *testing.T) {
	t.Helper()
	c.AwaitRollout(name, "healthy", func(ro *v1alpha1.Rollout) error {
		if ro.Status.Phase != v1alpha1.RolloutPhaseHealthy || ro.Status.StableRS == "" || ro.Status.StableRS != ro.Status.CurrentPodHash {
			return errors.New("not healthy")
		}
		return nil
	})
}
