package xds

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc/mem"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// anyDomain is the domain of a virtual host for any name. It sorts before all others.
const anyDomain = "*"

// routeSync says which routes one Envoy has, and which objects of the table it does not
// have yet. At most one route configuration waits for its answer. Other streams do not
// see a routeSync.
type routeSync struct {
	// table is the table that the Envoy has: each object of its namespaces in the form
	// that it has acknowledged. hosts are its virtual hosts, and order their domains,
	// sorted. Before synced, hosts and order mean nothing, and table has only the forms
	// that the Envoy says it has (see restore).
	table  *routes.Table
	hosts  map[string]*host
	order  []string
	synced bool
	// begun tells that the first configuration was sent.
	begun bool
	// nothingDue tells that the last search found nothing to send, and that nothing has
	// happened since that could change this.
	nothingDue bool
	// pending are the objects whose form in table may not be the current one. since is
	// when the oldest change was made that is in no push yet; zero for none.
	pending map[types.NamespacedName]*pendingObject
	since   time.Time
	push    *routePush // that waits for an answer; nil for none
	// suspects are groups of pending objects; an Envoy refused each group as a
	// part of a larger one. The larger groups come first.
	suspects [][]types.NamespacedName
	// found is how many searches in a row ended at an object, without an accepted probe.
	found int
	// probed tells that the last push was a probe: probes take turns with pushes of
	// the other pending objects.
	probed  bool
	backoff backoff
	// searched tells that the first configuration was refused by an Envoy that
	// serves routes from an earlier stream. leftOut are the groups of objects that are
	// still to be left out of it, one at a time.
	searched bool
	leftOut  [][]types.NamespacedName
	// version is the version that the Envoy has, and had its text; before synced, had
	// is the text from an earlier stream. rejected is a text that the Envoy refused
	// though the routes did not change.
	version       version
	had, rejected string
	// adopted and restored tell that adoptStandIns and restore have looked at the forms
	// that the Envoy says it has in place of invalid and of refused objects.
	adopted, restored bool
}

// pendingObject is an object that an Envoy does not have in its current form.
type pendingObject struct {
	since   time.Time // when it first changed
	suspect bool      // it is in a group of suspects
	// restored tells that the Envoy said it has another form of the object. The Envoy
	// keeps that form until it has acknowledged a first configuration or the object
	// changes.
	restored bool
	// quarantined tells that the Envoy refused the current form. refused is that form;
	// nil for a deletion.
	quarantined bool
	refused     *routes.Route
	// refusedSplit is the form that the Envoy has, with the current split, if the Envoy
	// refused that as well.
	refusedSplit *routes.Route
	// kept tells that the Envoy also refused the removal of the form that it has.
	kept bool
}

// routePush is a route configuration that waits for an Envoy's answer.
type routePush struct {
	objects []types.NamespacedName // whose form changes with this push
	table   *routes.Table
	hosts   map[string]*host // that change, by domain; nil for one that is removed
	all     []*host          // all virtual hosts as sent, in order
	version version
	text    string
	since   time.Time
	probe   bool // it is of suspects, or without a group of objects
	// failure is a panic while the push was made: it cannot be sent. over are the
	// objects that cause the panic on their own.
	failure error
	over    []types.NamespacedName
}

// setHad sets the text of the version that an Envoy has from an earlier stream. A text
// that is too long is not from an interceptor.
func (s *routeSync) setHad(text string) {
	if len(text) <= maxVersionText {
		s.had = text
	}
}

func newRouteSync() routeSync {
	return routeSync{table: &routes.Table{}, hosts: make(map[string]*host), pending: make(map[types.NamespacedName]*pendingObject)}
}

// touch notes that an object may have another form than the Envoy has. at is when the
// object changed; zero if it may not have changed.
func (st *stream) touch(object types.NamespacedName, at time.Time) {
	if !st.namespaces.HasObject(object) {
		return
	}
	s, current := &st.routes, st.table.Route(object)
	s.nothingDue = false // the version says which objects are invalid, too
	if current == nil {
		st.withdrawRefusal(object, rds, "")
	}
	p := s.pending[object]
	if p == nil {
		if sameRouting(current, s.table.Route(object)) && !s.pushing(object) {
			return
		}
		if p = (&pendingObject{since: at}); at.IsZero() {
			p.since = time.Now()
		}
		s.pending[object] = p
	}
	p.quarantined = p.quarantined && sameRouting(p.refused, current)
	// The Envoy refused an earlier form of it in a larger push: the current form does
	// not wait for the end of the search.
	p.suspect = p.suspect && at.IsZero()
	// An object that changes after the first configuration was sent does not wait for
	// the answer: the Envoy may never accept a first configuration.
	p.restored = p.restored && current != nil && !s.begun
	if s.since.IsZero() {
		s.since = at
	}
}

func (s *routeSync) pushing(object types.NamespacedName) bool {
	return s.push != nil && slices.Contains(s.push.objects, object)
}

func (st *stream) touchAllObjects() {
	for _, table := range []*routes.Table{st.table, st.routes.table} {
		for route := range table.Routes() {
			st.touch(route.Name, time.Time{})
		}
	}
}

// settlesAt returns when the first configuration is sent even if the Envoy has not asked
// for the endpoints of some cluster; zero if no first configuration is waiting.
func (st *stream) settlesAt() time.Time {
	if ch := &st.channels[rds]; ch.asked && !st.routes.begun {
		return ch.since.Add(st.server.settle)
	}
	return time.Time{}
}

// settled tells whether the first configuration may be sent: it has to have all
// virtual hosts, as the Envoy may serve them already.
func (st *stream) settled(now time.Time) bool {
	at := st.settlesAt()
	if at.IsZero() || !now.Before(at) {
		return true
	}
	for _, c := range st.clusters.known {
		if c.backend != nil && !c.gone && !c.refused && !c.warm() {
			return false
		}
	}
	return true
}

// sendRoutes sends the route configuration when it has changed and no push waits for an
// answer.
func (st *stream) sendRoutes(now time.Time) error {
	ch, s := &st.channels[rds], &st.routes
	if !ch.asked || !ch.wanted[envoy.RouteConfigurationName] || s.push != nil || !st.free(rds) || !st.settled(now) {
		return nil
	}
	if !s.restored {
		s.restored = true
		st.restore(s.had)
	}
	if st.clusters.changed {
		s.nothingDue, st.clusters.changed = false, false
	}
	if s.backoff.ends(now) {
		s.nothingDue = false
	}
	if s.nothingDue && s.begun {
		return nil
	}
	push := st.nextSoundPush()
	for s.begun && push != nil && len(push.hosts) == 0 && push.text == s.had {
		st.routesAccepted(push) // the change makes no difference to an Envoy
		push = st.nextSoundPush()
	}
	if push == nil && s.begun {
		s.nothingDue = true
		return nil
	}
	if push == nil {
		push = st.firstPush()
	}
	s.begun = true
	s.push = push
	for _, h := range push.hosts {
		st.countNamed(h, 1)
	}
	if !s.synced && ch.had == push.version {
		had := s.had
		st.routesAnswered(push, "") // the Envoy has it, from an earlier stream
		s.had = had
		ch.adopt(push.version)
		// No answer will come that would have the clusters looked at that may go now.
		if err := st.sendClusters(now); err != nil {
			return err
		}
		return st.sendRoutes(now)
	}
	return st.send(&response{
		kind: rds, version: push.version, text: push.text,
		resources: []resource{{envoy.RouteConfigurationName, push.version, st.server.configuration(push.all)}},
	}, &flight{push: push})
}

// configuration returns the route configuration of these virtual hosts.
func (s *Server) configuration(hosts []*host) mem.BufferSlice {
	content := make(mem.BufferSlice, 0, 1+len(hosts))
	content = append(content, mem.SliceBuffer(s.envelope))
	for _, h := range hosts {
		content = append(content, h.field)
	}
	return content
}

// firstPush returns the first configuration if no object is due yet: the forms that the
// Envoy says it has, without the objects that cause a panic. Otherwise the Envoy would
// reconnect with these again and again.
func (st *stream) firstPush() *routePush {
	s := &st.routes
	for {
		push := st.newPush(nil)
		if push.failure == nil {
			return push
		}
		st.warn("an Envoy says it has routes that cannot be made", "httpscaledobjects", push.over, "reason", oneLine(push.failure.Error()))
		before := s.table
		for _, name := range push.over {
			s.table = s.table.With(name, nil)
		}
		if s.table == before {
			s.table = s.table.Empty() // which leaves nothing to panic over
		}
	}
}

// nextSoundPush returns the next configuration to send; nil when there is none that
// may be sent now. A configuration counts as refused if making it panicked.
func (st *stream) nextSoundPush() *routePush {
	for {
		push := st.nextPush()
		if push == nil || push.failure == nil {
			return push
		}
		st.routesFailed(push)
	}
}

// routesFailed leaves out the objects that cause a panic. If these are not known, it
// searches for them as after a refusal.
func (st *stream) routesFailed(push *routePush) {
	s, known := &st.routes, false
	for _, name := range push.over {
		switch p := s.pending[name]; {
		case slices.Contains(push.objects, name):
			st.quarantine(name, push.table.Route(name), push.failure)
			known = true
		case p != nil && p.restored && s.table.Route(name) != nil:
			s.table, known = s.table.With(name, nil), true // though the Envoy says it has the object
		}
	}
	if !known {
		st.routesRefused(push, push.failure)
	}
}

// nextPush returns the next configuration to send; nil when there is none that
// may be sent now.
func (st *stream) nextPush() *routePush {
	s := &st.routes
	if !s.searching() {
		s.backoff = backoff{}
	}
	waits := s.backoff.active()
	if waits && len(s.leftOut) > 0 && s.since.IsZero() {
		return nil // no object has changed since the Envoy refused them all
	}
	// If an object has changed meanwhile, it may be the one at fault: all are tried again.
	if !waits && len(s.leftOut) > 0 && (!s.probed || s.since.IsZero()) {
		if push := st.withoutNextGroup(); push != nil {
			return push
		}
	}
	if len(s.suspects) == 0 || s.probed {
		if push := st.changesPush(); push != nil {
			return push
		}
	}
	for len(s.suspects) > 0 && !waits {
		group := s.nextSuspects()
		var objects []types.NamespacedName
		for _, name := range group {
			if p := s.pending[name]; p != nil {
				p.suspect = false
				if st.due(name, p) {
					objects = append(objects, name)
				}
			}
		}
		if len(objects) > 0 {
			s.probed = true
			push := st.newPush(objects)
			push.probe = true
			return push
		}
	}
	if push := st.changesPush(); push != nil {
		return push
	}
	// The version has to list the forms that the Envoy has in place of those that it
	// refuses: the next interceptor that it connects to begins with these forms.
	if !s.synced {
		return nil
	}
	if text := st.versionText(s.version, s.table); text != s.had && text != s.rejected {
		return st.newPush(nil)
	}
	return nil
}

// changesPush returns a push of all pending objects that may be sent and are not suspects; nil
// when there are none.
func (st *stream) changesPush() *routePush {
	s := &st.routes
	var objects []types.NamespacedName
	for name, p := range s.pending {
		switch {
		case p.suspect:
		case st.due(name, p):
			objects = append(objects, name)
		case s.synced && sameRouting(st.target(name, p), s.table.Route(name)) && !p.quarantined:
			st.arrived(name)
		}
	}
	if len(objects) == 0 {
		return nil
	}
	slices.SortFunc(objects, compareNames)
	push := st.newPush(objects)
	push.since = s.since
	s.since, s.probed = time.Time{}, false
	return push
}

// target returns the form of a pending object that the Envoy is to have; nil for
// none. If the current form is in quarantine, the target is the form that the Envoy has,
// with the current split: so an abort reaches an Envoy that refuses something else of
// the object.
func (st *stream) target(name types.NamespacedName, p *pendingObject) *routes.Route {
	current, has := st.table.Route(name), st.routes.table.Route(name)
	switch {
	case !p.quarantined:
		return current
	case has == nil || p.kept || current == nil:
		return has
	case has.UID != current.UID:
		return nil // a recreated object takes over nothing from the deleted one
	}
	next := has.WithSplitOf(current)
	if sameRouting(next, p.refused) || p.refusedSplit != nil && sameRouting(next, p.refusedSplit) {
		return has
	}
	return next
}

// due tells whether a pending object may be sent now: all clusters that it names
// are warm in the Envoy.
func (st *stream) due(name types.NamespacedName, p *pendingObject) bool {
	s := &st.routes
	target := st.target(name, p)
	if p.restored && !s.synced || sameRouting(target, s.table.Route(name)) {
		return false
	}
	return target == nil || !slices.ContainsFunc(target.Backends, func(b routes.Backend) bool { return !st.clusters.known[b.Cluster].warm() })
}

// newPush makes the configuration in which these objects have their target forms, and
// all others are as the Envoy has them.
func (st *stream) newPush(objects []types.NamespacedName) *routePush {
	s := &st.routes
	push := &routePush{objects: objects, table: st.tableWith(objects), hosts: make(map[string]*host)}
	var changes routes.Changes
	add := func(name types.NamespacedName, before *routes.Route) {
		if after := push.table.Route(name); before != after {
			changes.Routes = append(changes.Routes, routes.RouteChange{Name: name, Before: before, After: after})
		}
	}
	for _, name := range objects {
		add(name, s.table.Route(name))
	}
	if !s.synced {
		for route := range s.table.Routes() { // which the Envoy has, but not from this stream
			add(route.Name, nil)
		}
	}
	for _, domain := range changes.VirtualHosts(push.table) {
		h, over, err := st.virtualHost(push.table, domain)
		if err != nil {
			push.failure, push.over = err, over
			return push
		}
		has := s.hosts[domain]
		if h == nil && has == nil || h != nil && has != nil && h.version == has.version {
			continue
		}
		push.hosts[domain] = h
	}
	push.all = s.compose(push.hosts, st.server.noMatch)
	push.version = configurationVersion(st.server, push.all)
	push.text = st.versionText(push.version, push.table)
	return push
}

// tableWith returns the table that the Envoy has once it has the target forms of these
// objects. It begins with the table in which fewer objects have to be replaced; if no
// other object is pending, that is the current table, which all streams share.
func (st *stream) tableWith(objects []types.NamespacedName) *routes.Table {
	s := &st.routes
	sent := make(map[types.NamespacedName]bool, len(objects))
	for _, name := range objects {
		sent[name] = true
	}
	if behind := len(s.pending) - len(objects); behind > len(objects) {
		table := s.table
		for _, name := range objects {
			table = table.With(name, st.target(name, s.pending[name]))
		}
		return table
	}
	table := st.table
	for name, p := range s.pending {
		route := s.table.Route(name)
		if sent[name] {
			route = st.target(name, p)
		}
		table = table.With(name, route)
	}
	return table
}

// compose returns the virtual hosts that the Envoy has, with these changes, in order.
func (s *routeSync) compose(changed map[string]*host, noMatch *host) []*host {
	all := make([]*host, 0, len(s.order)+len(changed)+1)
	add := func(h *host) {
		if h != nil {
			all = append(all, h)
		}
	}
	rest := slices.Sorted(maps.Keys(changed))
	for _, domain := range s.order {
		for len(rest) > 0 && rest[0] < domain {
			add(changed[rest[0]])
			rest = rest[1:]
		}
		if len(rest) > 0 && rest[0] == domain {
			add(changed[domain])
			rest = rest[1:]
			continue
		}
		add(s.hosts[domain])
	}
	for _, domain := range rest {
		add(changed[domain])
	}
	if len(all) == 0 || all[0].vh.Domain != anyDomain {
		all = slices.Insert(all, 0, noMatch)
	}
	return all
}

func configurationVersion(s *Server, all []*host) version {
	content := make([]byte, 0, len(s.envelope)+8*len(all))
	content = append(content, s.envelope...)
	for _, h := range all {
		content = binary.BigEndian.AppendUint64(content, uint64(h.version))
	}
	return versionOf(content)
}

// countNamed adds times to the count of each cluster that a virtual host names: a cluster has to
// stay in the Envoy while it is named.
func (st *stream) countNamed(h *host, times int) {
	if h == nil {
		return
	}
	for _, name := range h.clusters {
		st.clusters.of(name).named += times
		st.clusters.forget(name)
	}
}

// routesAnswered notes whether the Envoy accepted a route configuration or, if refusal is
// not empty, refused it: always as a whole.
func (st *stream) routesAnswered(push *routePush, refusal string) {
	s := &st.routes
	s.push, s.nothingDue = nil, false
	if refusal == "" {
		st.routesAccepted(push)
		return
	}
	for _, h := range push.hosts {
		st.countNamed(h, -1)
	}
	st.backOff(push)
	st.routesRefused(push, errors.New(refusal))
}

// routesRefused looks for the objects at fault.
func (st *stream) routesRefused(push *routePush, refusal error) {
	s := &st.routes
	switch n := len(push.objects); n {
	case 0:
		s.rejected = push.text
	case 1:
		st.quarantine(push.objects[0], push.table.Route(push.objects[0]), refusal)
		s.leftOut = nil // all others are tried
		s.found++
	default:
		if st.searchFirst(push) {
			return
		}
		s.suspects = append(s.suspects, push.objects[n/2:], push.objects[:n/2])
		for _, name := range push.objects {
			p := s.pending[name]
			p.suspect = sameRouting(push.table.Route(name), st.target(name, p)) // else it has changed since
		}
		s.probed = push.probe
	}
}

func (st *stream) routesAccepted(push *routePush) {
	s := &st.routes
	for domain, h := range push.hosts {
		st.countNamed(s.hosts[domain], -1)
		if h == nil {
			delete(s.hosts, domain)
		} else {
			s.hosts[domain] = h
		}
	}
	s.order = s.order[:0]
	for _, h := range push.all {
		if h != st.server.noMatch {
			s.order = append(s.order, h.vh.Domain)
		}
	}
	s.table, s.synced, s.version, s.had = push.table, true, push.version, push.text
	s.leftOut = nil
	if push.probe {
		s.found, s.backoff = 0, backoff{}
	}
	if !push.since.IsZero() {
		st.server.metrics.latency.Observe(time.Since(push.since).Seconds())
	}
	for _, name := range push.objects {
		if sameRouting(s.table.Route(name), st.table.Route(name)) {
			st.arrived(name)
		}
	}
}

// arrived notes that the Envoy has the current form of an object.
func (st *stream) arrived(object types.NamespacedName) {
	st.routes.pending = without(st.routes.pending, object)
	st.withdrawRefusal(object, rds, "")
}

// quarantine stops sending a form of an object to this Envoy.
func (st *stream) quarantine(object types.NamespacedName, refused *routes.Route, reason error) {
	s, current := &st.routes, st.table.Route(object)
	p := s.pending[object]
	if refused == nil {
		// The object was deleted, or recreated in a form that is in quarantine.
		st.warn("an Envoy refuses routes in which an HTTPScaledObject is missing", "httpscaledobject", object.String(), "reason", oneLine(reason.Error()))
		if p.quarantined {
			p.kept = true
			return
		}
	}
	if p.quarantined && refused != nil && !sameRouting(refused, p.refused) {
		p.refusedSplit = refused // the form in quarantine is still the current one
		return
	}
	p.refused, p.quarantined, p.kept = refused, sameRouting(refused, current), false
	if refused != nil {
		st.refuses(refused, rds, "", "spec", "the routes", reason, st.consequence(refused))
	}
}

// consequence tells what an Envoy serves for an object that it refuses.
func (st *stream) consequence(refused *routes.Route) string {
	if has := st.routes.table.Route(refused.Name); has != nil && has.UID == refused.UID {
		return "that kedify-proxy keeps the form that it accepted last until the object changes, and follows its split where it accepts that"
	}
	return "that kedify-proxy has no routes for it until the object changes"
}
