package contour

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/contour"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffictest"
)

// listeners adds the listeners that the Gateway lacks for TLSRoutes and TCPRoutes.
const listeners = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata:
  name: GATEWAY
  namespace: NAMESPACE_OF_IT
spec:
  gatewayClassName: CLASS
  listeners:
    - name: tls
      protocol: TLS
      port: 443
      tls: {mode: Passthrough}
      allowedRoutes: {namespaces: {from: All}}
    - name: tcp
      protocol: TCP
      port: 9000
      allowedRoutes: {namespaces: {from: All}}
`

// servicePort adds the port to the Service of Contour's example that its Gateway's
// listener for TCPRoutes needs. Contour's Envoys listen at a listener's port plus 8000.
const servicePort = `
---
apiVersion: v1
kind: Service
metadata:
  name: envoy
  namespace: projectcontour
spec:
  ports:
    - name: tcp
      protocol: TCP
      port: 9000
      targetPort: 17000
`

// protocolsManifest is a Rollout of an application that speaks gRPC, TLS and TCP, with
// a route for each. Their names differ: of routes with the same name, whatever their
// kinds, Contour reports the status of only one, and a weight waits half a minute for
// the others.
const protocolsManifest = `
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata:
  name: app
spec:
  replicas: 1
  minReadySeconds: 1 # see routed
  selector:
    matchLabels: {app: app}
  template:
    metadata:
      labels: {app: app}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: app
          image: sandbox/protocols:blue
          readinessProbe: {tcpSocket: {port: 9000}, periodSeconds: 1}
  strategy:
    canary:
      stableService: app-stable
      canaryService: app-canary
      trafficRouting:
        plugins:
          argoproj-labs/gatewayAPI: {grpcRoute: app-grpc, tlsRoute: app-tls, tcpRoute: app-tcp}
      steps:
        - setWeight: 20
        - pause: {}
        - setWeight: 60
        - pause: {}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata:
  name: app-grpc
spec:
  parentRefs: [{name: GATEWAY, namespace: NAMESPACE_OF_IT, sectionName: http}]
  hostnames: [HOST]
  rules:
    - backendRefs:
        - {name: app-stable, port: 80, weight: 100}
        - {name: app-canary, port: 80, weight: 0}
---
apiVersion: gateway.networking.k8s.io/v1alpha2
kind: TLSRoute
metadata:
  name: app-tls
spec:
  parentRefs: [{name: GATEWAY, namespace: NAMESPACE_OF_IT, sectionName: tls}]
  hostnames: [HOST]
  rules:
    - backendRefs:
        - {name: app-stable, port: 443, weight: 100}
        - {name: app-canary, port: 443, weight: 0}
---
apiVersion: gateway.networking.k8s.io/v1alpha2
kind: TCPRoute
metadata:
  name: app-tcp
spec:
  parentRefs: [{name: GATEWAY, namespace: NAMESPACE_OF_IT, sectionName: tcp}]
  rules:
    - backendRefs:
        - {name: app-stable, port: 9000, weight: 100}
        - {name: app-canary, port: 9000, weight: 0}
`

// protocolsService is a Service of the application, with NAME to be filled in.
const protocolsService = `
---
apiVersion: v1
kind: Service
metadata:
  name: NAME
spec:
  selector: {app: app}
  ports:
    - {name: grpc, port: 80, targetPort: 8080, appProtocol: kubernetes.io/h2c}
    - {name: tls, port: 443, targetPort: 8443}
    - {name: tcp, port: 9000, targetPort: 9000}
`

// A canary splits gRPC calls, TLS connections that the Gateway passes through, and TCP
// connections by weight, each through a route of its kind. None is lost in a promotion
// or an abort, and in the end the routes are as they were applied.
func TestCanaryOfOtherProtocols(t *testing.T) {
	t.Parallel()
	address := loadBalancer(t)
	n := e2etest.NewNamespace(t)
	host := n.Name + ".test"
	manifest := listeners
	if behind.addon == contour.Name {
		manifest += servicePort
	}
	e2etest.Shell(t, "kubectl apply --server-side --field-manager=e2e-listeners -f - <<'EOF'\n"+fill(manifest, host)+"EOF")
	service := func(name string) string { return strings.ReplaceAll(protocolsService, "NAME", name) }
	n.Apply(fill(protocolsManifest, host) + service("app-stable") + service("app-canary"))
	n.AwaitHealthy(name, "sandbox/protocols:blue")

	type route struct {
		routeKind
		name string
	}
	routes := map[string]route{"gRPC": {grpcRoutes, "app-grpc"}, "TLS": {tlsRoutes, "app-tls"}, "TCP": {tcpRoutes, "app-tcp"}}
	clients := map[string]client{
		"gRPC": grpcClient(t, net.JoinHostPort(address, "80"), host),
		"TLS":  tlsClient(net.JoinHostPort(address, "443"), host),
		"TCP":  tcpClient(net.JoinHostPort(address, "9000")),
	}
	before := map[string]*unstructured.Unstructured{}
	var calls []*calls
	for _, protocol := range traffictest.Sorted(clients) {
		ask := clients[protocol]
		e2etest.Eventually(t, e2etest.Patience, protocol+" is answered", func(ctx context.Context) error {
			colour, err := ask(ctx)
			if err == nil && colour != "blue" {
				err = fmt.Errorf("by %q", colour)
			}
			return err
		})
		before[protocol] = routes[protocol].of(t, n, routes[protocol].name)
		calls = append(calls, callAllAlong(t, protocol, ask))
	}
	requireStep := func(step int32, weight int) {
		t.Helper()
		n.AwaitPaused(name, step)
		for protocol, ask := range clients {
			if err := checkWeights(routes[protocol].of(t, n, routes[protocol].name), fmt.Sprintf("%d/%d", 100-weight, weight)); err != nil {
				t.Errorf("the route for %s: %v", protocol, err)
			}
			awaitShare(t, protocol, weight, ask)
		}
	}
	requireRest := func(colour string) {
		t.Helper()
		for protocol, ask := range clients {
			routes[protocol].awaitRest(t, n, before[protocol])
			awaitAll(t, protocol, colour, ask)
		}
	}

	n.SetImage(name, "sandbox/protocols:yellow")
	requireStep(1, 20)
	n.Abort(name)
	n.AwaitAborted(name)
	requireRest("blue")
	n.Retry(name)
	n.AwaitPaused(name, 1)
	n.Promote(name)
	requireStep(3, 60)
	n.Promote(name)
	n.AwaitHealthy(name, "sandbox/protocols:yellow")
	requireRest("yellow")
	for _, c := range calls {
		c.finish("blue", "yellow")
	}
}
