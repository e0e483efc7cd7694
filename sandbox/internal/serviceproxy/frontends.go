package serviceproxy

import (
	"cmp"
	"errors"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// frontend is one address that a Service is reached at.
type frontend struct {
	protocol corev1.Protocol // TCP or UDP
	address  netip.AddrPort
}

// backends are where connections to a frontend may go.
type backends struct {
	// endpoints are distinct and sorted.
	endpoints []netip.AddrPort
	// sticky sends a client address to the same endpoint each time.
	sticky bool
}

// frontends says what to listen on for a Service, and where each connection may
// go: the ready endpoints of its slices, or, if there are none, those that are
// terminating but still serve. A frontend without endpoints is listed, too.
// The node's own address answers on node ports.
func frontends(service *corev1.Service, endpointSlices []*discoveryv1.EndpointSlice, node netip.Addr) map[frontend]backends {
	result := map[frontend]backends{}
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		return result
	}
	sticky := service.Spec.SessionAffinity == corev1.ServiceAffinityClientIP
	for _, port := range service.Spec.Ports {
		protocol := port.Protocol
		if protocol == "" {
			protocol = corev1.ProtocolTCP
		}
		if protocol != corev1.ProtocolTCP && protocol != corev1.ProtocolUDP {
			continue
		}
		b := backends{endpoints: endpointsOf(port.Name, protocol, endpointSlices), sticky: sticky}
		for _, ip := range clusterIPs(service) {
			result[frontend{protocol, netip.AddrPortFrom(ip, uint16(port.Port))}] = b
		}
		if port.NodePort != 0 {
			result[frontend{protocol, netip.AddrPortFrom(node, uint16(port.NodePort))}] = b
		}
	}
	return result
}

func clusterIPs(service *corev1.Service) []netip.Addr {
	ips := service.Spec.ClusterIPs
	if len(ips) == 0 {
		ips = []string{service.Spec.ClusterIP}
	}
	var result []netip.Addr
	for _, text := range ips {
		// Headless services have "None" here.
		if ip, err := netip.ParseAddr(text); err == nil && ip.Is4() {
			result = append(result, ip)
		}
	}
	return result
}

func endpointsOf(portName string, protocol corev1.Protocol, endpointSlices []*discoveryv1.EndpointSlice) []netip.AddrPort {
	var ready, terminating []netip.AddrPort
	for _, slice := range endpointSlices {
		if slice.AddressType != discoveryv1.AddressTypeIPv4 {
			continue
		}
		port, ok := slicePort(slice, portName, protocol)
		if !ok {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			if len(endpoint.Addresses) == 0 {
				continue
			}
			ip, err := netip.ParseAddr(endpoint.Addresses[0])
			if err != nil {
				continue
			}
			c := endpoint.Conditions
			switch {
			case c.Ready == nil || *c.Ready:
				ready = append(ready, netip.AddrPortFrom(ip, port))
			case c.Serving != nil && *c.Serving && c.Terminating != nil && *c.Terminating:
				terminating = append(terminating, netip.AddrPortFrom(ip, port))
			}
		}
	}
	if len(ready) == 0 {
		ready = terminating
	}
	slices.SortFunc(ready, netip.AddrPort.Compare)
	return slices.Compact(ready)
}

func slicePort(slice *discoveryv1.EndpointSlice, name string, protocol corev1.Protocol) (uint16, bool) {
	for _, p := range slice.Ports {
		if p.Port == nil {
			continue
		}
		have := corev1.ProtocolTCP
		if p.Protocol != nil {
			have = *p.Protocol
		}
		if have == protocol && (p.Name == nil && name == "" || p.Name != nil && *p.Name == name) {
			return uint16(*p.Port), true
		}
	}
	return 0, false
}

// errNoEndpoints ends a connection accepted just before the last endpoint went.
var errNoEndpoints = errors.New("no endpoints")

// choose returns the endpoint of a connection: the n-th in turn, or, if sticky,
// the one that belongs to the client. It reports whether there is one.
func (b backends) choose(n uint32, client netip.Addr) (netip.AddrPort, bool) {
	if len(b.endpoints) == 0 {
		return netip.AddrPort{}, false
	}
	if b.sticky {
		// Rendezvous hashing: only the clients of an endpoint that goes move.
		return slices.MaxFunc(b.endpoints, func(x, y netip.AddrPort) int {
			return cmp.Or(cmp.Compare(weight(client, x), weight(client, y)), x.Compare(y))
		}), true
	}
	return b.endpoints[n%uint32(len(b.endpoints))], true
}
