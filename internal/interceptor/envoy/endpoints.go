package envoy

import (
	"net/netip"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// Fallback says where requests to a backend without an endpoint go.
type Fallback struct {
	// Addresses are those of the fallback listeners of the interceptors; none for
	// no fallback.
	Addresses []netip.AddrPort
	// OverTLS has the Envoy reach the interceptors through its FallbackListenerName,
	// which resolves their address itself.
	OverTLS bool
}

// Endpoints returns the assignment of a backend's cluster: the ready endpoints, and
// below them the fallback listeners of the interceptors. Endpoints that drain are not
// listed, as only an interceptor knows whether another backend stands in; when there is
// no fallback, they are the last resort.
func (t *Translator) Endpoints(b *routes.Backend, fallback Fallback) *endpointv3.ClusterLoadAssignment {
	first := b.Ready
	if len(fallback.Addresses) == 0 {
		first = b.Active()
	}
	assignment := &endpointv3.ClusterLoadAssignment{
		ClusterName: b.Cluster,
		Endpoints:   []*endpointv3.LocalityLbEndpoints{{LbEndpoints: endpointsAt(sockets(first), nil)}},
		Policy:      untilTheLast,
	}
	if len(fallback.Addresses) > 0 {
		last := sockets(fallback.Addresses)
		if fallback.OverTLS {
			last = []*corev3.Address{within(FallbackListenerName)}
		}
		marked := &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"envoy.transport_socket_match": t.cluster.fallback}}
		assignment.Endpoints = append(assignment.Endpoints, &endpointv3.LocalityLbEndpoints{
			Priority: 1, LbEndpoints: endpointsAt(last, marked),
		})
	}
	return assignment
}

func endpointsAt(addresses []*corev3.Address, metadata *corev3.Metadata) []*endpointv3.LbEndpoint {
	endpoints := make([]*endpointv3.LbEndpoint, len(addresses))
	for i, address := range addresses {
		endpoints[i] = &endpointv3.LbEndpoint{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: address}},
			Metadata:       metadata,
		}
	}
	return endpoints
}

func sockets(addresses []netip.AddrPort) []*corev3.Address {
	all := make([]*corev3.Address, len(addresses))
	for i, address := range addresses {
		all[i] = socket(address)
	}
	return all
}

// within returns the address of an internal listener of Envoy.
func within(listener string) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_EnvoyInternalAddress{EnvoyInternalAddress: &corev3.EnvoyInternalAddress{
		AddressNameSpecifier: &corev3.EnvoyInternalAddress_ServerListenerName{ServerListenerName: listener},
	}}}
}

func socket(address netip.AddrPort) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address:       address.Addr().Unmap().String(),
		PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(address.Port())},
	}}}
}
