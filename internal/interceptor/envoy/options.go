package envoy

import (
	"net/netip"
	"time"
)

// Options say how the Envoys behave. Those in Connections are required, as they are the
// settings of the embedded proxy; the zero value of each other is its default.
type Options struct {
	// Address is what the listeners listen on; 0.0.0.0 unless set. With "::"
	// they take IPv4 too.
	Address netip.Addr
	// HTTPPort and TLSPort are the ports of the listeners; 8080 and 8443 unless
	// set.
	HTTPPort, TLSPort uint16
	// TLS tells whether there is a TLS listener: it asks for the Secret.
	TLS bool
	// Edge tells that clients are not trusted: what they send in Forwarded,
	// X-Forwarded-* and X-Real-Ip is dropped. Otherwise it is kept, and added to.
	Edge bool

	// ResponseHeader is how long an application may take to answer with headers
	// once it has the whole request, where its route does not say; 0 is for as
	// long as it likes, and MaxTimeout the most.
	ResponseHeader time.Duration

	Connections

	// MaxConnections, MaxPendingRequests, MaxRequests and MaxRetries are the circuit
	// breakers of each cluster, in each Envoy: what exceeds them is answered 503 with
	// Retry-After. 0 is for any number.
	MaxConnections, MaxPendingRequests, MaxRequests, MaxRetries uint32

	// AccessLog says which requests the Envoys log, and AccessLogFormat how: constants of
	// package routes, where "" is for none and for JSON. A change of either makes each
	// Envoy drain its connections.
	AccessLog, AccessLogFormat string

	// RetryAfter is the value of Retry-After in whole seconds, 1 at least.
	RetryAfter time.Duration
}

// Connections are the settings of connections, to clients and to applications. Envoy
// counts in whole milliseconds, seconds or KiB: values are rounded up to these, and
// those beyond Envoy's own limits are set to the limits.
type Connections struct {
	// ConnectTimeout is how long connecting to an endpoint may take before
	// another is tried; above 0.
	ConnectTimeout time.Duration
	// IdleConnTimeout is how long an unused connection to an application is
	// kept; 0 is for ever.
	IdleConnTimeout time.Duration
	// KeepAlive is the interval of the probes of TCP and HTTP/2 that detect peers that
	// are gone; above 0, in seconds, 32767 at most.
	KeepAlive time.Duration
	// UserTimeout is how long an application may accept none of the data sent to it; 0
	// is for as long as the kernel allows.
	UserTimeout time.Duration
	// MaxHeaderBytes bounds the header of a request and of a response; above 0,
	// in KiB, 8192 at most.
	MaxHeaderBytes int
	// ReadHeader is how long a client may take to send a header, or for a TLS
	// handshake; above 0.
	ReadHeader time.Duration
	// Idle is how long a connection of a client is kept between requests;
	// above 0.
	Idle time.Duration
	// SendTimeout is how long a client may accept none of the data that waits to be
	// sent to it; 0 is for as long as the kernel allows.
	SendTimeout time.Duration
	// MaxStreams bounds the concurrent requests of one HTTP/2 connection; above 0.
	MaxStreams int
}

func (o Options) withDefaults() Options {
	defaultTo(&o.Address, netip.IPv4Unspecified())
	defaultTo(&o.HTTPPort, 8080)
	defaultTo(&o.TLSPort, 8443)
	return o
}

func defaultTo[T comparable](value *T, to T) {
	var zero T
	if *value == zero {
		*value = to
	}
}
