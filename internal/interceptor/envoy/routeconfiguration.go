package envoy

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// triedAgain has Envoy retry once the requests whose connection is closed before a
// response, or whose stream is reset: GET, HEAD and OPTIONS, unless Content-Length says
// that there is a body. (The size is that length, or what has come of the body so far,
// which is nothing.) retryPolicy cannot say this: a condition on the method there would
// apply to all of its reasons. Envoy obeys this header and does not pass it on; those
// of clients have been removed by now.
const triedAgain = `%CEL(request.method in ["GET", "HEAD", "OPTIONS"] && request.size == 0 ? "reset" : "")%`

// RouteConfiguration returns the route configuration of these virtual hosts, in their
// order. If two had the same domain, Envoy would reject all of it.
func (t *Translator) RouteConfiguration(vhs []*routev3.VirtualHost) *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{
		Name:                     RouteConfigurationName,
		VirtualHosts:             vhs,
		IgnorePortInHostMatching: true,
		RequestHeadersToAdd: []*corev3.HeaderValueOption{{
			Header:       &corev3.HeaderValue{Key: "x-forwarded-host", Value: "%REQ(:authority)%"},
			AppendAction: corev3.HeaderValueOption_ADD_IF_ABSENT,
		}, {
			Header:       &corev3.HeaderValue{Key: "x-envoy-retry-on", Value: triedAgain}, // not added if that is empty
			AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		}},
		// Envoy itself adds the first, beside X-Forwarded-For. The second it accepts
		// from clients, too.
		RequestHeadersToRemove: []string{"x-envoy-external-address", routes.SecondTryHeader},
	}
}
