package envoy

import (
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	// ejectAfter is how many connections to an endpoint have to fail in a row for it to
	// be ejected. A dead endpoint gets there with its next requests, each of which gets
	// a second try. The comment on ejection says why the number is not smaller.
	ejectAfter = 10
	// ejectFor is how long an endpoint is ejected, times the number of its recent
	// ejections; longestEjection bounds the product. Envoy checks every
	// ejectionInterval whether the time is over.
	ejectFor, longestEjection, ejectionInterval = 10 * time.Second, time.Minute, 10 * time.Second
)

// ejection has Envoy send nothing to endpoints that cannot be connected to, for a
// while. No response of an application ejects its endpoint, whatever its status code
// is: a bad canary has to be seen.
//
// Envoy counts a connection that is closed during a request, and a response that is
// late, as a failed connection. But each request that gets a connection starts the
// count anew: an endpoint that can be connected to is ejected only if ejectAfter
// concurrent requests end that way and none begins meanwhile. If all endpoints of a
// backend are ejected, its requests go to an interceptor, which sends them to the same
// backend: a bad backend is still seen.
//
// All endpoints may be ejected, the interceptors' address too: when none is left, Envoy
// sends to all as if none were ejected (the panic threshold).
func ejection() *clusterv3.OutlierDetection {
	return &clusterv3.OutlierDetection{
		SplitExternalLocalOriginErrors:         true,
		ConsecutiveLocalOriginFailure:          number(ejectAfter),
		EnforcingConsecutiveLocalOriginFailure: number(100),
		BaseEjectionTime:                       durationpb.New(ejectFor),
		MaxEjectionTime:                        durationpb.New(longestEjection),
		Interval:                               durationpb.New(ejectionInterval),
		MaxEjectionPercent:                     number(100),
		// By default these eject too, by the responses of applications or by rates.
		EnforcingConsecutive_5Xx:        number(0),
		EnforcingSuccessRate:            number(0),
		EnforcingLocalOriginSuccessRate: number(0),
	}
}

// untilTheLast has the endpoints of a priority get all of its requests as long as one
// of them is not ejected. By default, part of the requests goes to the next priority,
// an interceptor, once more than 28 % are ejected. The factor is in percent: it is
// enough for one endpoint of 10,000.
var untilTheLast = &endpointv3.ClusterLoadAssignment_Policy{OverprovisioningFactor: number(1_000_000)}
