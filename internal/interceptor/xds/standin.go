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
	form    *routes.Route // with the split of invalid, if that split is valid
}

// see notes a snapshot: the table of all Envoys, with the stand-ins of this Envoy for
// invalid objects. The stand-in of an object is dropped when the object is valid again,
// deleted or recreated.
func (st *stream) see(now view) {
	st.shared, st.invalid = now.table, now.invalid
	st.fallback, st.secret = st.handOver.to(now.fallback), now.secret
	st.table = now.table
	var touched []*routes.Route
	for name, s := range st.standIns {
		object, invalid := now.invalid[name]
		var form *routes.Route
		switch {
		case !invalid || now.table.Route(name) != nil:
		case object.route == s.invalid:
			form = s.form
		default:
			form = st.server.lastValid(s.form, object.route)
		}
		if form != s.form {
			touched = append(touched, s.form, form)
		}
		if form == nil {
			delete(st.standIns, name)
			continue
		}
		st.standIns[name] = standIn{object.route, form}
		st.table = st.table.With(name, form)
	}
	for _, route := range touched {
		st.lookAtClustersOf(route)
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
		if saved == nil || !invalid || saved.UID != object.route.UID || !st.scope.has(name) || st.table.Route(name) != nil {
			continue
		}
		had, err := st.restored(name, saved)
		if err != nil {
			continue
		}
		form := st.server.lastValid(had, object.route)
		st.standIns[name] = standIn{object.route, form}
		st.table = st.table.With(name, form)
		st.lookAtClustersOf(form)
		st.touch(name, time.Time{})
	}
}

func (st *stream) lookAtClustersOf(route *routes.Route) {
	for _, c := range clustersOf(route) {
		st.lookAtCluster(c.Name, backendOf(st.table, c.Name))
	}
}
