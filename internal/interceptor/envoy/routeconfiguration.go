package envoy

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
)

// RouteConfiguration returns the route configuration of these virtual hosts, in
// their order. Of two with one domain Envoy would refuse both, and everything
// else.
func (t *Translator) RouteConfiguration(vhs []*routev3.VirtualHost) *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{
		Name:                     RouteConfigurationName,
		VirtualHosts:             vhs,
		IgnorePortInHostMatching: true,
		RequestHeadersToAdd: []*corev3.HeaderValueOption{{
			Header:       &corev3.HeaderValue{Key: "x-forwarded-host", Value: "%REQ(:authority)%"},
			AppendAction: corev3.HeaderValueOption_ADD_IF_ABSENT,
		}},
		// Envoy's own word on the client, beside X-Forwarded-For.
		RequestHeadersToRemove: []string{"x-envoy-external-address"},
	}
}
