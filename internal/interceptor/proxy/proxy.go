package proxy

import (
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// Proxy is the http.Handler that sends each request to a backend of its route.
// It is a prometheus.Collector too.
type Proxy struct {
	settings   Settings
	log        *slog.Logger
	table      atomic.Pointer[routes.Table]
	synced     atomic.Bool
	draining   atomic.Bool
	start      *start
	registry   registry
	waiting    *waitingRoom
	transports transports
	metrics    *metrics
	tunnels    tunnels
	memory     memory
	// clients are the connections to the ports for clients, and fallbackConnections
	// those to the fallback port.
	clients, fallbackConnections *connections
}

// New makes a Proxy without a table: until SetTable is called, a Server accepts no
// connection for 10 s, and after that answers each request 503. New returns an error if
// the settings are invalid.
func New(settings Settings, log *slog.Logger) (*Proxy, error) {
	if err := settings.Validate(); err != nil {
		return nil, err
	}
	p := &Proxy{
		settings:   settings,
		log:        log,
		registry:   registry{byName: make(map[types.NamespacedName]*served)},
		transports: newTransports(&settings),
		metrics:    newMetrics(),
		waiting:    newWaitingRoom(&settings),
		start:      newStart(),
	}
	p.clients = p.newConnections("proxy")
	p.fallbackConnections = p.newConnections("fallback")
	p.table.Store(routes.NewBuilder().Table())
	return p, nil
}

// SetTable has requests routed by a table from now on. Requests under way are not
// affected; requests that wait for an endpoint go on if the table has one. The call is
// cheap, whatever the size of the table.
func (p *Proxy) SetTable(table *routes.Table) {
	p.table.Store(table)
	p.synced.Store(true)
	p.start.end()
	p.waiting.look(table)
}

// Table returns the table in force; an empty one before the first SetTable.
func (p *Proxy) Table() *routes.Table { return p.table.Load() }

// Synced tells whether SetTable was called.
func (p *Proxy) Synced() bool { return p.synced.Load() }

// Ready tells whether to send requests here: there is a table, and no drain.
func (p *Proxy) Ready() bool { return p.synced.Load() && !p.draining.Load() }

// Drain makes Ready return false, and has clients close their connections after the
// next answer. New requests are still served, as it takes a while until no more are
// sent here. Server.Shutdown is to follow.
func (p *Proxy) Drain() {
	p.draining.Store(true)
	p.start.end()
}

// lookup finds the route of the request, nil when it has none.
func (x *exchange) lookup() *routes.Route {
	table := x.proxy.table.Load()
	if x.object != nil {
		if route := table.Route(*x.object); route != nil {
			return route
		}
	}
	route := table.Lookup(x.in.Host, routes.PathOf(x.in.RequestURI), x.in.Header)
	if route != nil && x.names.Any() && !x.names.Has(route.Name.Namespace) {
		return nil // the connection's object is gone, and this one is not allowed
	}
	return route
}

// ServeHTTP is part of http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.settings.Edge {
		dropForwarded(r.Header) // before a route is chosen by headers
	}
	p.serve(&exchange{proxy: p, w: w, in: r, begun: time.Now()})
}

func (p *Proxy) serve(x *exchange) {
	defer x.finish()
	defer x.guard()
	if p.memory.short.Load() {
		x.w.Header()["Connection"] = closing // a connection takes memory, too
		x.refuseForNow("the interceptor is short of memory, and takes no new requests")
		return
	}
	// In HTTP/2 the target can have a space; in HTTP/1.1 it would end there.
	if strings.ContainsAny(x.in.RequestURI, "# ") {
		x.refuse(http.StatusBadRequest, "the request target has a fragment or a space, which is not to be sent")
		return
	}
	// Go's server refuses this in HTTP/1.1; in HTTP/2 it uses the first value.
	if lengths := x.in.Header["Content-Length"]; slices.ContainsFunc(lengths, func(l string) bool { return l != lengths[0] }) {
		x.refuse(http.StatusBadRequest, "the request has more than one Content-Length, and they differ")
		return
	}
	if p.draining.Load() || x.old || ambiguousLength(x.in) {
		x.w.Header()["Connection"] = closing // in HTTP/2, too: Go's server then sends GOAWAY
	}
	s := x.findServed()
	if s == nil {
		return
	}
	index := x.sameAgain(s)
	if index < 0 {
		index = s.chooser.next()
	}
	switch {
	case x.tooLate:
		x.at = &s.backends[max(index, 0)]
		x.refuseTooLate(x.responseHeader(s))
	case index < 0:
		x.wait(s)
	default:
		x.forward(s, index)
	}
}

// findServed returns the serving state of the request's route. If the request has no
// route, findServed answers it and returns nil.
func (x *exchange) findServed() *served {
	for {
		route := x.lookup()
		if route == nil {
			x.refuseUnrouted()
			return nil
		}
		if s, ok := x.proxy.find(route); ok {
			return s
		}
	}
}

func (x *exchange) refuseUnrouted() {
	if !x.proxy.Synced() {
		x.refuseForNow("the interceptor has not read its routes yet")
		return
	}
	x.refuse(http.StatusNotFound, "no HTTPScaledObject is for host %s and path %s", shown(x.in.Host), shown(routes.PathOf(x.in.RequestURI)))
}

// wait holds a request that has no endpoint, and then forwards, refuses or abandons
// it.
func (x *exchange) wait(s *served) {
	x.stillHere()
	for {
		m := s.metrics
		x.at = &s.backends[0]
		what := x.hold(s.route, m)
		switch what {
		case abandoned:
			m.coldStart(what)
			x.abandon()
		case unrouted:
			m.coldStart(what)
			x.at = nil
			x.refuseUnrouted()
			return
		}
		if s = x.findServed(); s == nil {
			m.coldStart(unrouted)
			return
		}
		if index := s.chooser.next(); index >= 0 {
			m.coldStart(servedCold)
			x.forward(s, index)
			return
		}
		if what == servedCold || what == moved {
			continue // the endpoint is gone again, or another object has to be waited for
		}
		if s.failover != nil && len(s.failover.pool.endpoints) > 0 {
			m.coldStart(failedOver)
			x.exchange(s.failover, nil, x.responseHeader(s))
			return
		}
		m.coldStart(what)
		x.refuseForNow("HTTPScaledObject %s has no endpoint ready to take the request", s.route.Name)
		return
	}
}

// forward sends the request to the backend whose turn it is.
func (x *exchange) forward(s *served, index int) {
	var second *backend
	if other := s.chooser.other(index); other >= 0 {
		second = &s.backends[other]
	}
	x.exchange(&s.backends[index], second, x.responseHeader(s))
}

func (x *exchange) responseHeader(s *served) time.Duration {
	if s.route.ResponseHeader != nil {
		return *s.route.ResponseHeader
	}
	return x.proxy.settings.ResponseHeader
}

// exchange sends the request and answers it.
func (x *exchange) exchange(first, second *backend, timeout time.Duration) {
	if x.in.ProtoMajor == 1 && x.in.ContentLength != 0 {
		// An application may answer before it has the whole request. A writer
		// without full duplex passes the answer on afterwards.
		_ = http.NewResponseController(x.w).EnableFullDuplex()
	}
	res, stop, err := x.send(first, second, timeout)
	defer stop()
	switch {
	case err == nil && res.StatusCode == http.StatusSwitchingProtocols:
		x.tunnel(res)
	case err == nil && !statusInRange(res.StatusCode):
		_ = res.Body.Close()
		x.refuse(http.StatusBadGateway, "the application answered with the status %d; expected one from 200 to 999", res.StatusCode)
	case err == nil:
		x.answer(res)
	case x.in.Context().Err() != nil:
		x.abandon()
	case errors.Is(err, errNoEndpoint):
		x.at = first
		x.refuseForNow("there is no endpoint ready to take the request")
	case errors.Is(err, errHeaderTimeout):
		x.refuseTooLate(timeout)
	case x.bodyBroken():
		x.w.Header()["Connection"] = closing
		x.refuse(http.StatusBadRequest, "the body of the request cannot be read")
	case notConnected(err):
		x.refuse(http.StatusBadGateway, "the application cannot be connected to")
	default:
		x.proxy.log.Debug("a request failed after it was sent", "endpoint", x.to.host, "error", err)
		x.refuse(http.StatusBadGateway, "the connection to the application broke before it answered")
	}
}
