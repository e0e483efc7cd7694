package envoy

import (
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	// ejectAfter is how many connections to an endpoint have to fail in a row for it to
	// be ejected. With a dead endpoint they do within its next requests, each of which
	// gets a second try. The comment on ejection says why the number is not smaller.
	ejectAfter = 10
	// ejectFor is how long an endpoint is ejected, times how often it was ejected
	// lately; longestEjection bounds the product. Envoy looks every ejectionInterval
	// whether the time is over.
	ejectFor, longestEjection, ejectionInterval = 10 * time.Second, time.Minute, 10 * time.Second
)

// ejection has Envoy send nothing to endpoints that cannot be connected to, for a
// while. No answer of an application ejects its endpoint, whatever its code is: a
// bad canary has to be seen.
//
// Envoy takes connections that are cut under a request, and answers that are late,
// for connections that cannot be made. Each request that gets a connection begins
// the count anew, though: only where ejectAfter requests that were there together
// end that way, and none begins meanwhile, is an endpoint ejected that can be
// connected to. With all endpoints of a backend ejected, an interceptor gets its
// requests, which sends them to that same backend: that it is bad is still seen.
//
// All may be ejected, the interceptors' address too: when nothing is left, Envoy
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
		// All else ejects by default, by what applications answer or by rates.
		EnforcingConsecutive_5Xx:        number(0),
		EnforcingSuccessRate:            number(0),
		EnforcingLocalOriginSuccessRate: number(0),
	}
}

// untilTheLast has the endpoints of a priority get all of its requests as long as
// one of them is not ejected. By default, a part goes to the next priority, an
// interceptor, once more than 28 % are ejected. The factor is in percent: it is
// enough for one of 10,000.
var untilTheLast = &endpointv3.ClusterLoadAssignment_Policy{OverprovisioningFactor: number(1_000_000)}
