package envoy

import (
	"fmt"
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
	// long as it likes.
	ResponseHeader time.Duration

	Connections

	// MaxConnections, MaxPendingRequests, MaxRequests and MaxRetries are the circuit
	// breakers of each cluster, in each Envoy: what exceeds them is answered 503. nil
	// is 1,000,000, in effect no limit: Envoy's own defaults (1024, and 3 retries)
	// refuse requests that the application and the embedded proxy take.
	MaxConnections, MaxPendingRequests, MaxRequests, MaxRetries *uint32
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

// Validate returns an error for the first invalid option.
func (o Options) Validate() error {
	for _, natural := range []struct {
		name  string
		value time.Duration
	}{
		{"ResponseHeader", o.ResponseHeader}, {"IdleConnTimeout", o.IdleConnTimeout},
		{"UserTimeout", o.UserTimeout}, {"SendTimeout", o.SendTimeout},
	} {
		if natural.value < 0 {
			return fmt.Errorf("Envoy option %s is %v; expected 0 or more", natural.name, natural.value)
		}
	}
	if o.ResponseHeader > longest {
		return fmt.Errorf("Envoy option ResponseHeader is %v; expected %v at most", o.ResponseHeader, longest)
	}
	for _, positive := range []struct {
		name  string
		value int64
	}{
		{"ConnectTimeout", int64(o.ConnectTimeout)}, {"KeepAlive", int64(o.KeepAlive)}, {"MaxHeaderBytes", int64(o.MaxHeaderBytes)},
		{"ReadHeader", int64(o.ReadHeader)}, {"Idle", int64(o.Idle)}, {"MaxStreams", int64(o.MaxStreams)},
	} {
		if positive.value <= 0 {
			return fmt.Errorf("Envoy option %s is %d; expected more than 0", positive.name, positive.value)
		}
	}
	if o.Address.Zone() != "" {
		return fmt.Errorf("Envoy option Address is %v; expected an address without a zone", o.Address)
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
