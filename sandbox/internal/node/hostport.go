package node

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/serviceproxy"
)

// openHostPorts makes the node's address answer on the host ports of the pod,
// once. They stay open until closeHostPorts, as long as the pod has its network.
func (w *worker) openHostPorts() error {
	if w.closeHostPorts != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	for _, c := range slices.Concat(w.pod.Spec.InitContainers, w.pod.Spec.Containers) {
		for _, port := range c.Ports {
			if port.HostPort == 0 {
				continue
			}
			if err := w.openHostPort(ctx, port); err != nil {
				cancel()
				return fmt.Errorf("hostPort %d of container %s: %w", port.HostPort, c.Name, err)
			}
		}
	}
	w.closeHostPorts = cancel
	return nil
}

func (w *worker) openHostPort(ctx context.Context, port corev1.ContainerPort) error {
	host := w.n.cfg.NodeIP
	if port.HostIP != "" {
		ip, err := netip.ParseAddr(port.HostIP)
		if err != nil {
			return fmt.Errorf("hostIP %q: expected an IP address: %w", port.HostIP, err)
		}
		if !ip.IsUnspecified() {
			host = ip
		}
	}
	return serviceproxy.Forward(ctx, cmp.Or(port.Protocol, corev1.ProtocolTCP),
		netip.AddrPortFrom(host, uint16(port.HostPort)), netip.AddrPortFrom(w.network.IP, uint16(port.ContainerPort)), w.log)
}
