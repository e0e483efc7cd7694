package envoy

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// triedAgain has requests tried once more whose connection is closed before an
// answer, or whose stream is reset: by GET, HEAD and OPTIONS, unless Content-Length
// says that there is a body. (The size is that length, or what has come of the body
// so far, which is nothing.) retryPolicy has no room for it: where that asks for a
// method, it does so for each of its reasons. Envoy takes this header as an order
// and passes it on to nobody; those of clients are gone by now.
const triedAgain = `%CEL(request.method in ["GET", "HEAD", "OPTIONS"] && request.size == 0 ? "reset" : "")%`

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
		}, {
			Header:       &corev3.HeaderValue{Key: "x-envoy-retry-on", Value: triedAgain}, // not when that is empty
			AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		}},
		// The first is Envoy's own word on the client, beside X-Forwarded-For. The
		// second Envoy takes from clients, too.
		RequestHeadersToRemove: []string{"x-envoy-external-address", routes.SecondTryHeader},
	}
}
