package routes

import (
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Route is what is served for one HTTPScaledObject: what it asks for or, if that cannot
// be served, its last good form. It is immutable.
type Route struct {
	// Name is that of the HTTPScaledObject, and UID its identity: an object that is
	// created again under the same name takes over nothing from the old one.
	Name types.NamespacedName
	UID  types.UID
	// Generation is metadata.generation of the HTTPScaledObject, and Annotation the value
	// of its split annotation, whether it is served as it is or not. They are zero in a
	// Route of Restore.
	Generation int64
	Annotation string
	// Backends share the requests, in the order of the annotation; without a split
	// there is one, scaleTargetRef.service. There is always at least one.
	Backends []Backend
	// Split tells whether the backends are those of an annotation, in force
	// or last good, and not the stable Service alone.
	Split bool
	// Rollout is the name of the Rollout that says it set the split, or empty.
	Rollout string
	// AccessLog tells whether the object has the AccessLogAnnotation.
	AccessLog bool
	// Failover takes the requests whose cold start lasts too long; nil when
	// none is asked for.
	Failover *Failover
	// ConditionWait is how long a request waits for a first endpoint, 0 for
	// not at all; nil leaves it to the interceptor's setting.
	ConditionWait *time.Duration
	// ResponseHeader is how long the application may take to answer with
	// headers, 0 for as long as it likes; nil leaves it to the interceptor's
	// setting.
	ResponseHeader *time.Duration

	spec *validSpec
}

// Hosts returns the host patterns of the route, in the form of VirtualHost's
// Domain. The caller must not change them, as with all that a Route returns.
func (r *Route) Hosts() []string { return r.spec.match.hosts }

// PathPrefixes returns the path prefixes of the route: "/" for any path, and
// others without a slash at the end.
func (r *Route) PathPrefixes() []string { return r.spec.match.prefixes }

// Headers returns the headers of which a request has to carry any one; empty if it
// needs none.
func (r *Route) Headers() []Header { return r.spec.match.headers }

// Cold tells that no backend with weight has an endpoint to send a request to. A
// backend of weight 0 does not count, as it is not meant to get requests.
func (r *Route) Cold() bool {
	for i := range r.Backends {
		if r.Backends[i].Share > 0 {
			return false
		}
	}
	return true
}

// HasReady tells that a backend that serves has a ready endpoint. If none has, those that
// drain serve.
func (r *Route) HasReady() bool {
	return slices.ContainsFunc(r.Backends, func(b Backend) bool { return b.Share > 0 && len(b.Ready) > 0 })
}

// WithEndpointsOf returns the route with the endpoints and the protocols that a
// later form of the same HTTPScaledObject has for the same Services.
func (r *Route) WithEndpointsOf(later *Route) *Route {
	fresh := *r
	fresh.Backends = slices.Clone(r.Backends)
	for i := range fresh.Backends {
		if now := findBackend(later.Backends, fresh.Backends[i].Service); now != nil {
			fresh.Backends[i].Endpoints = now.Endpoints
		}
	}
	return &fresh
}

// WithSplitOf returns the route with the backends of a later form of the same
// HTTPScaledObject: the hosts, paths, headers and response timeout are those of r,
// all else is as in that form.
func (r *Route) WithSplitOf(later *Route) *Route {
	fresh := *later
	fresh.spec, fresh.ResponseHeader = r.spec, r.ResponseHeader
	return &fresh
}

// Protocol is the protocol that a backend speaks, without TLS.
type Protocol uint8

// The protocols of backends.
const (
	// HTTP1 is HTTP/1.1, with upgrades such as to WebSocket.
	HTTP1 Protocol = iota
	// H2C is HTTP/2 with prior knowledge, as gRPC needs it.
	H2C
)

// String returns the protocol's name in ALPN.
func (p Protocol) String() string {
	if p == H2C {
		return "h2c"
	}
	return "http/1.1"
}

// Endpoints are the addresses of one port of one Service, sorted, each once.
type Endpoints struct {
	// Ready addresses take requests.
	Ready []netip.AddrPort
	// Draining addresses are terminating and still serve: the last resort.
	Draining []netip.AddrPort
	// Protocol is the protocol that the port speaks.
	Protocol Protocol
}

// Equal tells whether both have the same addresses and protocol.
func (e Endpoints) Equal(other Endpoints) bool {
	return e.Protocol == other.Protocol && slices.Equal(e.Ready, other.Ready) && slices.Equal(e.Draining, other.Draining)
}

// Backend is one Service of a route, with its share of the requests.
type Backend struct {
	// Cluster is its name in Envoy and in metrics,
	// <namespace>/<HTTPScaledObject>/<Service>.
	Cluster string
	// Service is the name of the Service, in the namespace of the route.
	Service string
	// Weight is the share asked for, relative to the sum of all weights of
	// the route.
	Weight uint32
	// Share is the share to serve now, relative to the sum of all shares: its Weight,
	// or 0 while other backends have to stand in for it.
	Share uint32
	// Endpoints of the Service, whether or not they get requests now.
	Endpoints
}

// Active returns the addresses to send this backend's Share to: those that are ready
// or, if there are none, those that drain.
func (b *Backend) Active() []netip.AddrPort {
	if len(b.Ready) > 0 {
		return b.Ready
	}
	return b.Draining
}

// Failover takes the requests of a cold start that lasts too long.
type Failover struct {
	// Service is the name of the Service, in the namespace of the route.
	Service string
	// After is how long a request waits before it goes to the Service.
	After time.Duration
	// Endpoints of the Service; none while it does not exist.
	Endpoints
}

// Active returns the addresses to send requests to: those that are ready or, if there
// are none, those that drain.
func (f *Failover) Active() []netip.AddrPort {
	if len(f.Ready) > 0 {
		return f.Ready
	}
	return f.Draining
}

// equal compares the whole form, though part of it does not show in the Route: it may
// become the last good form.
func (r *Route) equal(other *Route) bool {
	return r.sameRouting(other) && r.Generation == other.Generation && r.Annotation == other.Annotation &&
		r.Rollout == other.Rollout && r.spec.equal(other.spec) &&
		slices.EqualFunc(r.Backends, other.Backends, func(a, b Backend) bool {
			return a.Share == b.Share && a.Equal(b.Endpoints)
		}) && equalFailover(r.Failover, other.Failover)
}

// SameRequests tells whether both take the same requests, with the same precedence. Other
// may be nil.
func (r *Route) SameRequests(other *Route) bool {
	return other != nil && r.spec.match.equal(other.spec.match)
}

// sameRouting tells whether both take the same requests and share them in the same way.
// It ignores endpoints and what follows from them.
func (r *Route) sameRouting(other *Route) bool {
	return r.spec.match.equal(other.spec.match) && r.sameSharing(other)
}

// sameSharing tells the same as sameRouting, but also ignores which requests the routes
// take.
func (r *Route) sameSharing(other *Route) bool {
	return r == other || r.Name == other.Name && r.UID == other.UID && r.Split == other.Split && r.AccessLog == other.AccessLog &&
		equalDuration(r.ConditionWait, other.ConditionWait) && equalDuration(r.ResponseHeader, other.ResponseHeader) &&
		slices.EqualFunc(r.Backends, other.Backends, func(a, b Backend) bool {
			return a.Service == b.Service && a.Weight == b.Weight
		})
}

func equalFailover(a, b *Failover) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Service == b.Service && a.After == b.After && a.Equal(b.Endpoints)
}

func equalDuration(a, b *time.Duration) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
