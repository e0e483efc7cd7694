package envoy

import (
	"fmt"
	"net/netip"
	"time"
)

// Options say how the Envoys behave. The zero value of each is its default.
type Options struct {
	// Address is what the listeners listen on; 0.0.0.0 unless set. With "::"
	// they take IPv4 too.
	Address netip.Addr
	// HTTPPort and TLSPort are the ports of the listeners; 8080 and 8443 unless
	// set.
	HTTPPort, TLSPort uint16
	// TLS tells whether there is a TLS listener: it asks for the Secret.
	TLS bool
	// Edge tells that clients are strangers: what they say in Forwarded and
	// X-Forwarded-* is dropped. Otherwise it is kept, and added to.
	Edge bool

	// ResponseHeader is how long an application may take to answer with headers
	// once it has the whole request, where its route does not say; 0 is for as
	// long as it likes.
	ResponseHeader time.Duration
	// ConnectTimeout is how long connecting to an endpoint may take before
	// another is tried; 1 s unless set.
	ConnectTimeout time.Duration
	// RouteIdleTimeout ends a stream on which nothing moved for so long; 3600 s
	// unless set.
	RouteIdleTimeout time.Duration

	// MaxConnections, MaxPendingRequests, MaxRequests and MaxRetries are the
	// circuit breakers of each cluster, in each Envoy: what is beyond is
	// answered 503. nil is 1,000,000, which is out of the way: Envoy's own
	// defaults (1024, and 3 retries) refuse requests that the application and
	// the embedded proxy take.
	MaxConnections, MaxPendingRequests, MaxRequests, MaxRetries *uint32
}

// Validate tells of the first option that cannot be.
func (o Options) Validate() error {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"ResponseHeader", o.ResponseHeader}, {"ConnectTimeout", o.ConnectTimeout}, {"RouteIdleTimeout", o.RouteIdleTimeout},
	} {
		if d.value < 0 {
			return fmt.Errorf("Envoy option %s is %v; expected 0 or more", d.name, d.value)
		}
	}
	if o = o.withDefaults(); o.HTTPPort == o.TLSPort {
		return fmt.Errorf("Envoy options HTTPPort and TLSPort are both %d; expected two ports", o.HTTPPort)
	}
	return nil
}

func (o Options) withDefaults() Options {
	defaultTo(&o.Address, netip.IPv4Unspecified())
	defaultTo(&o.HTTPPort, 8080)
	defaultTo(&o.TLSPort, 8443)
	defaultTo(&o.ConnectTimeout, time.Second)
	defaultTo(&o.RouteIdleTimeout, time.Hour)
	outOfTheWay := uint32(1_000_000)
	for _, limit := range []**uint32{&o.MaxConnections, &o.MaxPendingRequests, &o.MaxRequests, &o.MaxRetries} {
		defaultTo(limit, &outOfTheWay)
	}
	return o
}

func defaultTo[T comparable](value *T, to T) {
	var zero T
	if *value == zero {
		*value = to
	}
}
