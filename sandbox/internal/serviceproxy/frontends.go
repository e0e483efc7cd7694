package serviceproxy

import (
	"cmp"
	"errors"
	"net/netip"
	"slices"
	"strings"

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
	// sources are the client addresses that may connect; nil is all.
	sources []netip.Prefix
}

// admits says whether a client may connect.
func (b backends) admits(client netip.Addr) bool {
	return b.sources == nil || slices.ContainsFunc(b.sources, func(p netip.Prefix) bool { return p.Contains(client) })
}

// frontends says what to listen on for a Service, and where each connection may
// go: the ready endpoints of its slices, or, if there are none, those that are
// terminating but still serve; with a traffic policy of Local, only those on the
// node. A frontend without endpoints is listed, too. The node's own address answers
// on node ports, and the addresses in the status of a Service of type LoadBalancer
// on its ports.
func frontends(service *corev1.Service, endpointSlices []*discoveryv1.EndpointSlice, node Node) map[frontend]backends {
	result := map[frontend]backends{}
	spec := &service.Spec
	if spec.Type == corev1.ServiceTypeExternalName {
		return result
	}
	sticky := spec.SessionAffinity == corev1.ServiceAffinityClientIP
	for _, port := range spec.Ports {
		protocol := port.Protocol
		if protocol == "" {
			protocol = corev1.ProtocolTCP
		}
		if protocol != corev1.ProtocolTCP && protocol != corev1.ProtocolUDP {
			continue
		}
		from := func(local bool) backends {
			only := ""
			if local {
				only = node.Name
			}
			return backends{endpoints: endpointsOf(port.Name, protocol, endpointSlices, only), sticky: sticky}
		}
		internal := from(spec.InternalTrafficPolicy != nil && *spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal)
		for _, ip := range clusterIPs(service) {
			result[frontend{protocol, netip.AddrPortFrom(ip, uint16(port.Port))}] = internal
		}
		external := from(spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal)
		if port.NodePort != 0 {
			result[frontend{protocol, netip.AddrPortFrom(node.IP, uint16(port.NodePort))}] = external
		}
		external.sources = sourceRanges(spec)
		for _, ip := range loadBalancerIPs(service) {
			result[frontend{protocol, netip.AddrPortFrom(ip, uint16(port.Port))}] = external
		}
	}
	return result
}

// loadBalancerIPs are the addresses that a load balancer has given the Service.
func loadBalancerIPs(service *corev1.Service) []netip.Addr {
	if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return nil
	}
	var result []netip.Addr
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		if ip, err := netip.ParseAddr(ingress.IP); err == nil && ip.Is4() {
			result = append(result, ip)
		}
	}
	return result
}

// sourceRanges are the clients that may connect to the Service's load balancer;
// nil is all. The API server has validated their syntax.
func sourceRanges(spec *corev1.ServiceSpec) []netip.Prefix {
	if len(spec.LoadBalancerSourceRanges) == 0 {
		return nil
	}
	ranges := []netip.Prefix{}
	for _, text := range spec.LoadBalancerSourceRanges {
		if prefix, err := netip.ParsePrefix(strings.TrimSpace(text)); err == nil {
			ranges = append(ranges, prefix.Masked())
		}
	}
	return ranges
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

// endpointsOf lists the endpoints of a port; if onlyNode is not empty, those of
// that node.
func endpointsOf(portName string, protocol corev1.Protocol, endpointSlices []*discoveryv1.EndpointSlice, onlyNode string) []netip.AddrPort {
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
			if len(endpoint.Addresses) == 0 || onlyNode != "" && (endpoint.NodeName == nil || *endpoint.NodeName != onlyNode) {
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

var (
	// errNoEndpoints ends a connection accepted just before the last endpoint was
	// removed.
	errNoEndpoints = errors.New("no endpoints")
	errNotAdmitted = errors.New("the client is in none of spec.loadBalancerSourceRanges")
)

// choose returns the endpoint of a connection: the n-th in turn, or, if sticky,
// the one that belongs to the client.
func (b backends) choose(n uint32, client netip.Addr) (netip.AddrPort, error) {
	switch {
	case !b.admits(client):
		return netip.AddrPort{}, errNotAdmitted
	case len(b.endpoints) == 0:
		return netip.AddrPort{}, errNoEndpoints
	case b.sticky:
		// Rendezvous hashing: when an endpoint is removed, only its clients move.
		return slices.MaxFunc(b.endpoints, func(x, y netip.AddrPort) int {
			return cmp.Or(cmp.Compare(weight(client, x), weight(client, y)), x.Compare(y))
		}), nil
	}
	return b.endpoints[n%uint32(len(b.endpoints))], nil
}
