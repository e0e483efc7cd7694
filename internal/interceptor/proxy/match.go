package proxy

import (
	"net/http"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// match finds the HTTPScaledObject that a request belongs to, and answers 404 where
// there is none.
func (p *Proxy) match(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := recordOf(r)
		if rec.served = p.servedFor(r); rec.served == nil {
			p.refuseUnmatched(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// lookup finds the route of a request in the table in force, nil when it has none.
func (p *Proxy) lookup(r *http.Request) *routes.Route {
	table := p.table.Load()
	from := recordOf(r).handover
	if from != nil && from.object != nil {
		if route := table.Route(*from.object); route != nil {
			return route
		}
	}
	route := table.Lookup(r.Host, routes.PathOf(r.RequestURI), r.Header)
	if route != nil && from != nil && from.namespaces.Any() && !from.namespaces.Has(route.Name.Namespace) {
		return nil // the connection's object is gone, and this one is not allowed
	}
	return route
}

// servedFor returns the serving state of the route of a request, nil when it has none.
func (p *Proxy) servedFor(r *http.Request) *served {
	for {
		route := p.lookup(r)
		if route == nil {
			return nil
		}
		if s, ok := p.find(route); ok {
			return s
		}
	}
}

func (p *Proxy) refuseUnmatched(w http.ResponseWriter, r *http.Request) {
	if !p.Synced() {
		p.refuseForNow(w, r, "the interceptor has not read its routes yet")
		return
	}
	refuse(w, r, http.StatusNotFound, "no HTTPScaledObject is for host %s and path %s", shown(r.Host), shown(routes.PathOf(r.RequestURI)))
}
