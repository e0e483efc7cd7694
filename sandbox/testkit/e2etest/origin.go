package e2etest

import (
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

// ListenForPods listens at the node's address, which pods reach, until the test
// ends.
func ListenForPods(t testing.TB) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(cluster.NodeIP.String(), "0"))
	if err != nil {
		t.Fatalf("listening at the node's address: %v", err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

// ServiceAt makes a Service with port 80 whose one endpoint is an address and no
// pod: a server of the test stands for the application. appProtocol is that of
// the port, and may be empty.
func (n *Namespace) ServiceAt(name string, at net.Addr, appProtocol string) {
	n.t.Helper()
	address, err := netip.ParseAddrPort(at.String())
	if err != nil {
		n.t.Fatalf("Service %s: its endpoint: %v", name, err)
	}
	if appProtocol != "" {
		appProtocol = ", appProtocol: " + appProtocol
	}
	n.Apply(fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata:
  name: %[1]s
spec:
  ports: [{port: 80, targetPort: %[3]d%[4]s}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: %[1]s
  labels:
    kubernetes.io/service-name: %[1]s
    endpointslice.kubernetes.io/managed-by: e2e
addressType: IPv4
endpoints: [{addresses: [%[2]q], conditions: {ready: true}}]
ports: [{port: %[3]d%[4]s}]
`, name, address.Addr(), address.Port(), appProtocol))
}
