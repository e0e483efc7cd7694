package agent

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffictest"
)

const (
	// many is how many ScaledObjects are applied at once, perIngress how many of their hosts an
	// Ingress has.
	many, perIngress = 500, 100
	manyPatience     = 3 * time.Minute
)

// 500 ScaledObjects that are applied at once all get their HTTPScaledObjects, and all their
// paths are pointed at kedify-proxy.
func TestManyScaledObjectsAtOnce(t *testing.T) {
	n := e2etest.NewNamespace(t)
	n.Apply(traffictest.Deployment("one", "blue", 1))
	traffictest.AwaitEndpoints(t, n, "one", 1)
	var text strings.Builder
	for i := range many {
		if i%perIngress == 0 {
			fmt.Fprintf(&text, "---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: app-%d\nspec:\n  rules:\n", i/perIngress)
		}
		fmt.Fprintf(&text, "    - {host: %s, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: one, port: {number: 80}}}}]}}\n", manyHost(n, i))
	}
	for i := range many {
		fmt.Fprintf(&text, `---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: app-%d
spec:
  scaleTargetRef: {name: app-%d}
  triggers:
    - {type: kedify-http, metadata: {hosts: %s, service: one, port: "80", trafficAutowire: ingress}}
`, i, i, manyHost(n, i))
	}
	n.Apply(text.String())
	e2etest.Eventually(t, manyPatience, "all are wired", func(ctx context.Context) error {
		objects, err := n.Dynamic.Resource(cluster.HTTPScaledObjectGVR).Namespace(n.Name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(objects.Items) != many {
			return fmt.Errorf("there are %d HTTPScaledObjects", len(objects.Items))
		}
		for _, o := range objects.Items {
			if why, is := o.GetAnnotations()["http.kedify.io/not-wired"]; is {
				return fmt.Errorf("HTTPScaledObject %s is not wired: %s", o.GetName(), why)
			}
		}
		ingresses, err := n.Kube.NetworkingV1().Ingresses(n.Name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, i := range ingresses.Items {
			for _, rule := range i.Spec.Rules {
				if strings.HasPrefix(i.Name, "app-") && rule.HTTP.Paths[0].Backend.Service.Name != "kedify-proxy" {
					return fmt.Errorf("host %s goes to %s", rule.Host, rule.HTTP.Paths[0].Backend.Service.Name)
				}
			}
		}
		return nil
	})
	address := awaitIngressNamed(t, n, "app-0")
	for i := range many {
		if _, err := e2etest.Get(t.Context(), "http://"+address+"/color", manyHost(n, i)); err != nil {
			t.Errorf("host %s: %v", manyHost(n, i), err)
		}
	}
}

func manyHost(n *e2etest.Namespace, i int) string { return fmt.Sprintf("h%d.%s.test", i, n.Name) }

// awaitIngressNamed returns the address of an Ingress.
func awaitIngressNamed(t *testing.T, n *e2etest.Namespace, name string) (address string) {
	t.Helper()
	e2etest.Eventually(t, e2etest.Patience, "Ingress "+name+" has an address", func(ctx context.Context) error {
		i, err := n.Kube.NetworkingV1().Ingresses(n.Name).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if in := i.Status.LoadBalancer.Ingress; len(in) == 1 {
			address = in[0].IP
			return nil
		}
		return fmt.Errorf("its status has %v", i.Status.LoadBalancer.Ingress)
	})
	return address
}
