package xds

import (
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// standIn is what one Envoy is sent in place of an invalid object of which this server
// knows no valid form, as it started after the object became invalid. The Envoy says
// that it has one.
type standIn struct {
	invalid *routes.Route
	route   *routes.Route // with the split of invalid, if that split is valid
}

// apply takes a snapshot: the table of all Envoys, with the stand-ins of this Envoy for
// invalid objects. The stand-in of an object is dropped when the object is valid again,
// deleted or recreated.
func (st *stream) apply(now snapshot) {
	st.shared, st.invalid = now.table, now.invalid
	st.fallback, st.secret = st.handOver.to(now.fallback), now.secret
	st.table = now.table
	var touched []*routes.Route
	for name, s := range st.standIns {
		object, invalid := now.invalid[name]
		var route *routes.Route
		switch {
		case !invalid || now.table.Route(name) != nil:
		case object.route == s.invalid:
			route = s.route
		default:
			route = st.server.lastValid(s.route, object.route)
		}
		if route != s.route {
			touched = append(touched, s.route, route)
		}
		if route == nil {
			delete(st.standIns, name)
			continue
		}
		st.standIns[name] = standIn{object.route, route}
		st.table = st.table.With(name, route)
	}
	for _, route := range touched {
		st.updateClustersOf(route)
	}
}

// adoptStandIns notes the forms that an Envoy says it has in place of invalid objects. A
// deleted object is not an invalid one: its routes are removed.
func (st *stream) adoptStandIns() {
	s := &st.routes
	if s.adopted || !st.channels[rds].asked {
		return
	}
	s.adopted = true
	if len(st.invalid) == 0 {
		return
	}
	for name, saved := range savedIn(s.had) {
		object, invalid := st.invalid[name]
		if saved == nil || !invalid || saved.UID != object.route.UID || !st.namespaces.HasObject(name) || st.table.Route(name) != nil {
			continue
		}
		had, err := st.restored(name, saved)
		if err != nil {
			continue
		}
		route := st.server.lastValid(had, object.route)
		st.standIns[name] = standIn{object.route, route}
		st.table = st.table.With(name, route)
		st.updateClustersOf(route)
		st.touch(name, time.Time{})
	}
}

func (st *stream) updateClustersOf(route *routes.Route) {
	for _, c := range clustersOf(route) {
		st.updateCluster(c.Name, backendOf(st.table, c.Name))
	}
}
