package xds

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// lacks tells whether the Envoy refuses a cluster and has none of that name from
// before, so that no route may name it.
func (st *stream) lacks(name string) bool {
	c := st.clusters.known[name]
	return c != nil && c.refused && !c.warm() && !st.clusters.wanted[name]
}

// lacksOneOf tells whether a route names a cluster that the Envoy will not have: one
// that it lacks, or, where the route stands in for one that is refused, one that is
// gone and that this Envoy never had.
func (st *stream) lacksOneOf(route *routes.Route) bool {
	refused := st.refusals[route.Name]
	standsIn := refused != nil && !refused.again && refused.good == route
	return slices.ContainsFunc(route.Backends, func(b routes.Backend) bool {
		return st.lacks(b.Cluster) || standsIn && st.cold(b.Cluster) && backendOf(st.table, b.Cluster) == nil
	})
}

// cold tells that no route may name a cluster now.
func (st *stream) cold(name string) bool { return !st.clusters.known[name].warm() }

// host returns the virtual host of a domain for this Envoy; nil when there is
// none. Nobody in it waits for a cluster that the Envoy will not have: the object
// which that is of is in it as this Envoy accepted it last, or not at all.
func (st *stream) host(domain string) *host {
	h := st.cut.host(domain)
	var without refusals
	// An object that is left out may have been before another that is wrong too.
	for h != nil && slices.ContainsFunc(h.clusters, st.cold) {
		if without == nil {
			without = make(refusals)
			maps.Copy(without, st.refusals)
		}
		found := false
		for _, m := range h.vh.Matches {
			if st.lacksOneOf(m.Route) {
				without[m.Route.Name] = st.standIn(m.Route)
				found = true
			}
		}
		if !found {
			return h // it waits for clusters that are on their way
		}
		vh, some := without.virtualHost(st.table, domain, func(object types.NamespacedName) bool { return st.cut.has(object.Namespace) })
		if !some {
			return nil
		}
		h = st.server.render.host(vh)
	}
	return h
}

// standIn is what there is instead of a route that names a cluster which the Envoy
// lacks.
func (st *stream) standIn(route *routes.Route) *refusal {
	good := lastAccepted(route, nil, st.routes.accepted)
	if good != nil && st.lacksOneOf(good) {
		good = nil
	}
	return &refusal{route: route, good: good}
}

// reconsider notes that it is open again whether the Envoy takes a cluster, or
// that it does.
func (st *stream) reconsider(name string, c *cluster) {
	st.touchRoutesTo(name, c)
	c.refused = false
}

// touchRoutesTo has virtual hosts looked at that are without a cluster which was
// refused.
func (st *stream) touchRoutesTo(name string, c *cluster) {
	route := routeOf(st.table, name)
	if !c.refused || route == nil {
		return
	}
	all := routes.Changes{Routes: []routes.RouteChange{{Name: route.Name, After: route}}}
	for _, domain := range all.VirtualHosts(st.table) {
		st.routes.touch(domain, time.Time{})
	}
}
