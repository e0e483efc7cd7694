package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// A Service of type LoadBalancer gets an address of the sandbox's range in its status.
// The address answers, and so do its node ports; neither does after a change of type.
func TestSandboxLoadBalancer(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	n.Apply(strings.Replace(e2etest.Service("web", "web"), "spec:", "spec:\n  type: LoadBalancer\n  externalTrafficPolicy: Local", 1))
	n.Apply(pod("web", "      # nothing more"))
	awaitPod(t, n, "web", "ready", isReady)
	n.AwaitEvent("Service", "web", "EnsuredLoadBalancer")
	service := awaitService(t, n, "web", "with an address", func(s *corev1.Service) error {
		if len(s.Status.LoadBalancer.Ingress) == 0 {
			return fmt.Errorf("its status is %+v", s.Status)
		}
		return nil
	})
	ip := service.Status.LoadBalancer.Ingress[0].IP
	if address, err := netip.ParseAddr(ip); err != nil || !cluster.LoadBalancerCIDR.Contains(address) {
		t.Errorf("its address is %q, want one of %s", ip, cluster.LoadBalancerCIDR)
	}
	urls := []string{
		"http://" + ip + "/color",
		fmt.Sprintf("http://%s:%d/color", cluster.NodeIP, service.Spec.Ports[0].NodePort),
	}
	for _, url := range urls {
		e2etest.Eventually(t, e2etest.Patience, "answers at "+url, func(ctx context.Context) error {
			body, err := e2etest.Get(ctx, url, "")
			if err == nil && body != `"blue"` {
				t.Errorf("%s answers %s", url, body)
			}
			return err
		})
	}
	if columns := strings.Fields(n.Kubectl("get", "service", "web", "--no-headers")); columns[3] != ip {
		t.Errorf("kubectl get shows the external IP %q, want %s", columns[3], ip)
	}

	n.Kubectl("patch", "service", "web", "--type=merge", `-p={"spec":{"type":"ClusterIP","externalTrafficPolicy":null}}`)
	awaitService(t, n, "web", "without an address", func(s *corev1.Service) error {
		if len(s.Status.LoadBalancer.Ingress) > 0 {
			return fmt.Errorf("its status is %+v", s.Status)
		}
		return nil
	})
	for _, url := range urls {
		awaitRefused(t, url)
	}
}

// An Event names a field of a Service that the sandbox does not support.
func TestSandboxLoadBalancerRefusals(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	for name, tc := range map[string]struct{ spec, reason, says string }{
		"class":    {"type: LoadBalancer\n  loadBalancerClass: example.com/other", "UnsupportedLoadBalancerClass", "example.com/other"},
		"address":  {"type: LoadBalancer\n  loadBalancerIP: 192.0.2.1", "LoadBalancerAddress", "spec.loadBalancerIP 192.0.2.1"},
		"external": {"externalIPs: [192.0.2.1]", "ServiceProxy", "spec.externalIPs 192.0.2.1"},
	} {
		n.Apply(strings.Replace(e2etest.Service(name, name), "spec:", "spec:\n  "+tc.spec, 1))
		n.AwaitEvent("Service", name, tc.reason, tc.says)
	}
}

// awaitService waits until check returns nil for a Service.
func awaitService(t *testing.T, n *e2etest.Namespace, name, what string, check func(*corev1.Service) error) *corev1.Service {
	t.Helper()
	var last *corev1.Service
	e2etest.Eventually(t, e2etest.Patience, fmt.Sprintf("Service %s %s", name, what), func(ctx context.Context) error {
		service, err := n.Kube.CoreV1().Services(n.Name).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		last = service
		return check(service)
	})
	return last
}
