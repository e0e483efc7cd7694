package contour

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/sandbox/e2e/internal/traffictest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/traffic"
)

// listeners are what the Gateway of Contour's example lacks for TLSRoutes and TCPRoutes,
// and the port of its Service. Contour's Envoys listen at a listener's port plus 8000.
const listeners = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata:
  name: contour
  namespace: projectcontour
spec:
  gatewayClassName: example
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

// protocolsManifest is a Rollout of an application that speaks gRPC, TLS and TCP, with a
// route for each. Their names differ: of routes of one name Contour reports on one alone,
// whatever their kinds, and a weight waits half a minute for the others.
const protocolsManifest = `
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata:
  name: app
spec:
  replicas: 1
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
apiVersion: v1
kind: Service
metadata:
  name: app-stable
spec:
  selector: {app: app}
  ports:
    - {name: grpc, port: 80, targetPort: 8080, appProtocol: kubernetes.io/h2c}
    - {name: tls, port: 443, targetPort: 8443}
    - {name: tcp, port: 9000, targetPort: 9000}
---
apiVersion: v1
kind: Service
metadata:
  name: app-canary
spec:
  selector: {app: app}
  ports:
    - {name: grpc, port: 80, targetPort: 8080, appProtocol: kubernetes.io/h2c}
    - {name: tls, port: 443, targetPort: 8443}
    - {name: tcp, port: 9000, targetPort: 9000}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata:
  name: app-grpc
spec:
  parentRefs: [{name: contour, namespace: projectcontour, sectionName: http}]
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
  parentRefs: [{name: contour, namespace: projectcontour, sectionName: tls}]
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
  parentRefs: [{name: contour, namespace: projectcontour, sectionName: tcp}]
  rules:
    - backendRefs:
        - {name: app-stable, port: 9000, weight: 100}
        - {name: app-canary, port: 9000, weight: 0}
`

// A canary of calls over gRPC, of TLS connections that the Gateway passes through, and
// of TCP connections: each is split by weight through a route of its kind, none is lost
// in a promotion nor in an abort, and the routes are in the end as they were applied.
func TestCanaryOfOtherProtocols(t *testing.T) {
	t.Parallel()
	address := loadBalancer(t)
	n := e2etest.NewNamespace(t)
	host := n.Name + ".test"
	e2etest.Shell(t, "kubectl apply --server-side --field-manager=e2e-listeners -f - <<'EOF'\n"+listeners+"EOF")
	n.Apply(replaceHost(protocolsManifest, host))
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

// client asks for the colour of the version that answers.
type client func(context.Context) (string, error)

func grpcClient(t *testing.T, address, host string) client {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority(host))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return func(ctx context.Context) (string, error) {
		answer := &wrapperspb.StringValue{}
		err := conn.Invoke(ctx, "/sandbox.Protocols/Color", &emptypb.Empty{}, answer)
		return answer.Value, err
	}
}

// tlsClient makes a TLS connection for each question. The certificate must be that of
// the version that answers: the Gateway has none.
func tlsClient(address, host string) client {
	//nolint:gosec // The name in the certificate is looked at; nobody has signed it.
	dialer := &tls.Dialer{Config: &tls.Config{ServerName: host, InsecureSkipVerify: true}}
	return func(ctx context.Context) (string, error) {
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return "", err
		}
		colour, err := readLine(ctx, conn)
		certificate := conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
		if want := colour + ".protocols.test"; err == nil && certificate.DNSNames[0] != want {
			err = fmt.Errorf("the certificate is of %s, want %s", certificate.DNSNames[0], want)
		}
		return colour, err
	}
}

func tcpClient(address string) client {
	return func(ctx context.Context) (string, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return "", err
		}
		return readLine(ctx, conn)
	}
}

// readLine reads the one line that a connection brings, and closes it.
func readLine(ctx context.Context, conn net.Conn) (string, error) {
	defer func() { _ = conn.Close() }()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetReadDeadline(deadline); err != nil {
			return "", err
		}
	}
	text, err := io.ReadAll(conn)
	colour, ended := strings.CutSuffix(string(text), "\n")
	if err == nil && !ended {
		err = fmt.Errorf("the connection has brought %q and no line", text)
	}
	return colour, err
}

// protocolMargin is by how many percentage points a share may not be off: a connection
// for each question costs more than a request.
const protocolMargin = 12

// awaitShare waits until yellow gets its share of what a client asks.
func awaitShare(t *testing.T, protocol string, weight int, ask client) {
	t.Helper()
	e2etest.Eventually(t, e2etest.Patience, fmt.Sprintf("%s: yellow has a share of %d", protocol, weight), func(context.Context) error {
		return traffictest.Proxy{Name: protocol}.CheckShare(t, "yellow", weight, protocolMargin, func(count int, ordered bool) []traffic.Answer {
			return traffictest.Ask(count, ordered, func(int) traffic.Answer {
				colour, err := askWithin(t.Context(), ask)
				if err != nil {
					return traffic.Answer{Problem: err.Error()}
				}
				return traffic.Answer{Backend: colour}
			})
		})
	})
}

// awaitAll waits until one version answers all that a client asks.
func awaitAll(t *testing.T, protocol, want string, ask client) {
	t.Helper()
	e2etest.Eventually(t, e2etest.Patience, protocol+": all is answered by "+want, func(context.Context) error {
		for range 100 {
			if colour, err := askWithin(t.Context(), ask); err != nil || colour != want {
				return fmt.Errorf("%q, %w", colour, err)
			}
		}
		return nil
	})
}

func askWithin(ctx context.Context, ask client) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return ask(ctx)
}

// calls are made one after the other, some thirty a second at most.
type calls struct {
	t        *testing.T
	protocol string
	stop     context.CancelFunc
	done     sync.WaitGroup

	answered map[string]int
	failed   []error
}

func callAllAlong(t *testing.T, protocol string, ask client) *calls {
	ctx, cancel := context.WithCancel(t.Context())
	c := &calls{t: t, protocol: protocol, stop: cancel, answered: map[string]int{}}
	c.done.Go(func() {
		ticker := time.NewTicker(30 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			// One that has begun is not cut short.
			colour, err := askWithin(context.WithoutCancel(ctx), ask)
			if err != nil {
				c.failed = append(c.failed, err)
			} else {
				c.answered[colour]++
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		c.done.Wait()
	})
	return c
}

// finish ends the calls, and fails the test if one has failed or was answered by another
// than these versions.
func (c *calls) finish(versions ...string) {
	c.t.Helper()
	c.stop()
	c.done.Wait()
	total := 0
	for _, version := range versions {
		if c.answered[version] == 0 {
			c.failed = append(c.failed, errors.New("nothing was answered by "+version))
		}
		total += c.answered[version]
		delete(c.answered, version)
	}
	if len(c.failed) > 0 || len(c.answered) > 0 {
		c.t.Errorf("%s: besides %d answers %d calls have failed, and %v went astray; the first failures: %v",
			c.protocol, total, len(c.failed), c.answered, c.failed[:min(len(c.failed), 5)])
	}
	c.t.Logf("%s: %d calls were answered", c.protocol, total)
}
