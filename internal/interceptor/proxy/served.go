package proxy

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/loads"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// served is the serving state of one Route: which backend is next, and how busy its
// endpoints are. The next version of the Route takes it over.
type served struct {
	route    *routes.Route
	services []string
	chooser  *chooser
	backends []backend // in the order of route.Backends
	failover *backend  // nil for none
	metrics  *routeMetrics
	load     *loads.Counters
}

// backend is a backend of a served route, or its failover.
type backend struct {
	service string
	pool    pool
	metrics *backendMetrics
}

func newServed(route *routes.Route, before *served, metrics *routeMetrics) *served {
	if before != nil && before.route.UID != route.UID {
		before = nil
	}
	s := &served{
		route:    route,
		services: make([]string, len(route.Backends)),
		backends: make([]backend, len(route.Backends)),
		metrics:  metrics,
	}
	shares := make([]uint32, len(route.Backends))
	for i := range route.Backends {
		b := &route.Backends[i]
		s.services[i], shares[i] = b.Service, b.Share
		s.backends[i] = backend{
			service: b.Service,
			pool:    newPool(b.Active(), b.Protocol, before.poolOf(b.Service)),
			metrics: s.metrics.backend(b.Service),
		}
	}
	var chooserBefore *chooser
	var servicesBefore []string
	if before != nil {
		chooserBefore, servicesBefore = before.chooser, before.services
	}
	s.chooser = newChooser(s.services, shares, chooserBefore, servicesBefore)
	if f := route.Failover; f != nil {
		var poolBefore *pool
		if before != nil && before.failover != nil {
			poolBefore = &before.failover.pool
		}
		s.failover = &backend{
			service: f.Service,
			pool:    newPool(f.Active(), f.Protocol, poolBefore),
			metrics: s.metrics.backend(f.Service),
		}
	}
	return s
}

// poolOf returns the pool of a service, nil when s does not have that service; s may be
// nil.
func (s *served) poolOf(service string) *pool {
	if s == nil {
		return nil
	}
	for i, name := range s.services {
		if name == service {
			return &s.backends[i].pool
		}
	}
	return nil
}

func (s *served) hasService(name string) bool {
	return slices.Contains(s.services, name) || s.route.Failover != nil && s.route.Failover.Service == name
}

// dropOldServices drops the metrics of Services that have left the route. The count of
// requests under way is among them: one that still has some may come back, and is kept.
func (s *served) dropOldServices() {
	s.metrics.keep(func(service string) bool {
		return s.hasService(service) || s.metrics.backends[service].underWay.Load() > 0
	})
}

// registry has the serving state of routes, by Route and by name. A route is added with
// its first request, so that a new table costs nothing here.
type registry struct {
	byRoute sync.Map // *routes.Route to *served
	mu      sync.Mutex
	byName  map[types.NamespacedName]*served
}

// find returns the serving state of a route; ok is false when the route is no longer in
// the table.
func (p *Proxy) find(route *routes.Route) (s *served, ok bool) {
	if found, ok := p.registry.byRoute.Load(route); ok {
		return found.(*served), true
	}
	r := &p.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	if found, ok := r.byRoute.Load(route); ok {
		return found.(*served), true
	}
	table := p.table.Load()
	if table.Route(route.Name) != route {
		return nil, false
	}
	if len(r.byName) > 2*table.Len()+64 {
		p.sweepLocked(table) // amortised over the routes added since the last sweep
	}
	before := r.byName[route.Name]
	var m *routeMetrics
	if before != nil {
		m = before.metrics
	} else {
		m = p.metrics.route(route.Name)
	}
	s = newServed(route, before, m)
	s.load = p.loads.Own().Counters(route.Name)
	r.byRoute.Store(route, s)
	r.byName[route.Name] = s
	if before != nil {
		r.byRoute.Delete(before.route)
		s.dropOldServices()
	}
	return s, true
}

// sweep drops the state and the series of routes that are no longer in the table.
func (p *Proxy) sweep() {
	r := &p.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	p.sweepLocked(p.table.Load())
}

func (p *Proxy) sweepLocked(table *routes.Table) {
	p.underWay.sweep()
	r := &p.registry
	for name, s := range r.byName {
		if table.Route(name) == nil {
			delete(r.byName, name)
			r.byRoute.Delete(s.route)
			s.metrics.forget()
			s.load.Forget()
		} else {
			s.dropOldServices()
		}
	}
}
