package xds

import (
	"net/netip"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
)

// handOver is how one Envoy reaches the fallback listeners.
type handOver struct {
	// overTLS tells that the Envoy's bootstrap has the listener that hands requests
	// over with TLS.
	overTLS bool
	// refused tells that the fallback listeners close the Envoy's connections.
	refused bool
}

// handsOver returns how an Envoy reaches the fallback listeners.
func (s *Server) handsOver(node *corev3.Node) handOver {
	over := node.GetMetadata().GetFields()[envoy.FallbackTLSKey].GetBoolValue()
	return handOver{overTLS: over, refused: s.settings.RequireNamespaces && !over}
}

// to returns the fallback of the Envoy's clusters. It is empty if the fallback
// listeners would refuse the Envoy: then the Envoy retries requests itself.
func (h handOver) to(addresses []netip.AddrPort) envoy.Fallback {
	if h.refused {
		return envoy.Fallback{}
	}
	return envoy.Fallback{Addresses: addresses, OverTLS: h.overTLS}
}
