package agent

import (
	"context"
	"fmt"
	"net"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffictest"
)

const migratedIngress = `---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: app
spec:
  rules:
    - host: %s
      http:
        paths:
          - {path: /, pathType: Prefix, backend: {service: {name: app, port: {number: 80}}}}
`

const migratedRollout = `---
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata:
  name: app
spec:
  replicas: 2
  selector:
    matchLabels:
      app: app
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
          kedify/http:
            httpScaledObjectName: app
      steps:
        - setWeight: 20
        - pause: {}
`

// An application moves from a Deployment to a Rollout as docs/how-to/migrate-deployment.md says, under load, and
// no request is lost. Its HTTPScaledObject stays the same one.
func TestDeploymentMovesToARollout(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	host := n.Name + ".test"
	n.Apply(traffictest.Deployment(app, "blue", 2) + fmt.Sprintf(migratedIngress, host) +
		scaled{kind: "Deployment", metadata: map[string]string{"service": app, "trafficAutowire": "ingress"}}.manifest(host))
	address := awaitIngressNamed(t, n, app)
	isWired := func(o *unstructured.Unstructured) error {
		if why, is := o.GetAnnotations()["http.kedify.io/not-wired"]; is {
			return fmt.Errorf("it is not wired: %s", why)
		}
		return nil
	}
	before := awaitObject(t, n, "is wired", isWired)
	load := traffictest.StartLoadAt(t, traffictest.Proxy{Name: "ingress", Address: net.JoinHostPort(address, "80")}, host, 40)
	load.RequireOnly("blue")

	n.Apply(e2etest.Service("app-canary", app))
	n.Kubectl("annotate", "scaledobject", app, "autoscaling.keda.sh/paused=true")
	n.Apply(migratedRollout)
	n.AwaitRollout(app, "healthy", func(ro *v1alpha1.Rollout) error {
		if ro.Status.Phase != v1alpha1.RolloutPhaseHealthy {
			return fmt.Errorf("it is %s", ro.Status.Phase)
		}
		return nil
	})
	e2etest.Eventually(t, e2etest.Patience, "the Deployment is scaled down", func(ctx context.Context) error {
		d, err := n.Kube.AppsV1().Deployments(n.Name).Get(ctx, app, metav1.GetOptions{})
		if err == nil && d.Status.Replicas > 0 {
			err = fmt.Errorf("it has %d pods", d.Status.Replicas)
		}
		return err
	})
	n.Kubectl("patch", "scaledobject", app, "--type=json", "-p", `[
		{"op":"replace","path":"/spec/scaleTargetRef","value":{"apiVersion":"argoproj.io/v1alpha1","kind":"Rollout","name":"app"}},
		{"op":"remove","path":"/spec/triggers/0/metadata/service"}]`)
	n.Kubectl("annotate", "scaledobject", app, "autoscaling.keda.sh/paused-")
	after := awaitObject(t, n, "is of the Rollout", hasField("Rollout", "spec", "scaleTargetRef", "kind"))
	if before.GetUID() != after.GetUID() {
		t.Error("the HTTPScaledObject was created anew")
	}
	n.Kubectl("set", "image", "deployment/app", "*="+e2etest.Image("yellow"))
	n.AwaitPaused(app, 1)
	load.AwaitBoth("blue", "yellow")
	load.Finish(nil, "blue", "yellow")
}
