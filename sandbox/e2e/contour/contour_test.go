package contour

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// name of the Rollout.
const name = "app"

const ingress = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: app
spec:
  ingressClassName: contour
  rules:
    - host: HOST
      http:
        paths:
          - path: /
            pathType: Prefix
            backend:
              service:
                name: app-stable
                port:
                  number: 80
`

const stableRoute = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  name: app
spec:
  parentRefs:
    - name: GATEWAY
      namespace: NAMESPACE_OF_IT
  hostnames: [HOST]
  rules:
    - backendRefs:
        - name: app-stable
          port: 80
`

// loadBalancer waits until the implementation's Envoys have an address of the sandbox's
// range, and returns it.
func loadBalancer(t *testing.T) string {
	t.Helper()
	var address string
	e2etest.Eventually(t, e2etest.Patience, "an address of Service "+behind.Namespace+"/"+behind.Service, func(ctx context.Context) error {
		service, err := e2etest.Connect(t).Kube.CoreV1().Services(behind.Namespace).Get(ctx, behind.Service, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(service.Status.LoadBalancer.Ingress) != 1 {
			return fmt.Errorf("it has %d addresses", len(service.Status.LoadBalancer.Ingress))
		}
		address = service.Status.LoadBalancer.Ingress[0].IP
		return nil
	})
	return address
}

// colour asks for the colour of the version that serves a host.
func colour(ctx context.Context, address, host string) (string, error) {
	body, err := e2etest.Get(ctx, "http://"+address+"/color", host)
	return strings.Trim(body, "\"\n"), err
}

func awaitColour(t *testing.T, address, host, want string) {
	t.Helper()
	e2etest.Eventually(t, e2etest.Patience, host+" at "+address+" is "+want, func(ctx context.Context) error {
		got, err := colour(ctx, address, host)
		if err == nil && got != want {
			err = fmt.Errorf("it is %q", got)
		}
		return err
	})
}

// requireServed sends requests while a new version is rolled out; each has to be
// answered, and in the end by the new version.
func requireServed(t *testing.T, n *e2etest.Namespace, address, host string) {
	t.Helper()
	awaitColour(t, address, host, "blue")
	ctx, stop := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	sent := 0
	go func() {
		defer close(failed)
		for ; ctx.Err() == nil; sent++ {
			// A request that has begun is completed, even if ctx ends.
			if got, err := colour(t.Context(), address, host); err != nil || got != "blue" && got != "yellow" {
				failed <- fmt.Errorf("request %d: %q, %w", sent, got, err)
				return
			}
		}
	}()
	n.SetImage(name, e2etest.Image("yellow"))
	n.AwaitHealthy(name, e2etest.Image("yellow"))
	stop()
	if err := <-failed; err != nil {
		t.Error(err)
	} else if sent == 0 {
		t.Error("no request was sent meanwhile")
	}
	awaitColour(t, address, host, "yellow")
}

// deploy makes a Rollout that takes a new version in one step.
func deploy(t *testing.T, manifest string) (n *e2etest.Namespace, host string) {
	t.Helper()
	n = e2etest.NewNamespace(t)
	host = n.Name + ".test"
	n.Apply(e2etest.App{Name: name, Replicas: 2, Steps: "- setWeight: 50\n- pause: {duration: 3s}"}.Manifest())
	n.AwaitHealthy(name, e2etest.Image("blue"))
	n.Apply(fill(manifest, host))
	return n, host
}

// An Ingress of a Rollout serves requests at the load balancer's address and at the
// node's port 80, which Contour's DaemonSet asks for. Its status has the load
// balancer's address.
func TestRolloutBehindAnIngress(t *testing.T) {
	onlyContour(t, "Envoy Gateway serves no Ingress")
	t.Parallel()
	address := loadBalancer(t)
	n, host := deploy(t, ingress)
	requireServed(t, n, address, host)
	awaitColour(t, net.JoinHostPort(cluster.NodeIP.String(), "80"), host, "yellow")
	e2etest.Eventually(t, e2etest.Patience, "the status of the Ingress", func(ctx context.Context) error {
		object, err := n.Kube.NetworkingV1().Ingresses(n.Name).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if in := object.Status.LoadBalancer.Ingress; len(in) != 1 || in[0].IP != address {
			return fmt.Errorf("%v, want %s", in, address)
		}
		return nil
	})
	if _, err := colour(t.Context(), address, "nobody."+host); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("a host that no Ingress names: %v, want 404", err)
	}
}

// The Gateway has the load balancer's address, and serves the HTTPRoute of a Rollout.
func TestRolloutBehindAGateway(t *testing.T) {
	t.Parallel()
	address := loadBalancer(t)
	n, host := deploy(t, stableRoute)
	requireServed(t, n, address, host)

	gateways := schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gateways"}
	gateway, err := n.Dynamic.Resource(gateways).Namespace(behind.Namespace).Get(t.Context(), behind.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	addresses, _, _ := unstructured.NestedSlice(gateway.Object, "status", "addresses")
	if len(addresses) != 1 || addresses[0].(map[string]any)["value"] != address {
		t.Errorf("the Gateway's addresses are %v, want %s", addresses, address)
	}
}
