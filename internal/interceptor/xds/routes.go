package xds

import (
	"encoding/binary"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
)

// anyDomain is the domain of a host for any name. It sorts before all others.
const anyDomain = "*"

// routeSync is what an Envoy knows of virtual hosts, and what of it may be out of
// date. There is at most one route configuration on its way to it.
type routeSync struct {
	// accepted are the virtual hosts that the Envoy has, and order their
	// domains, sorted. They mean nothing before synced.
	accepted map[string]*host
	order    []string
	synced   bool
	// begun tells that the first configuration was sent.
	begun bool
	// stale are the domains to look at, since the oldest of their changes.
	stale map[string]struct{}
	since time.Time
	trial *trial // on its way
	// suspects are groups of domains, one of which at least is refused.
	suspects  [][]string
	suspected map[string]bool
	// probed tells that the last trial was of suspects: they take turns with
	// what is new.
	probed bool
	// refused are the contents that this Envoy does not take.
	refused map[version]bool
}

// trial is a change of accepted that waits for an Envoy's word.
type trial struct {
	hosts    map[string]*host // nil for one that goes
	all      []*host          // as sent, in order
	version  version
	since    time.Time
	suspects bool
}

func newRouteSync() routeSync {
	return routeSync{
		accepted: make(map[string]*host), stale: make(map[string]struct{}),
		suspected: make(map[string]bool), refused: make(map[version]bool),
	}
}

// touch notes that a domain may be other than before.
func (s *routeSync) touch(domain string, at time.Time) {
	s.stale[domain] = struct{}{}
	if s.since.IsZero() {
		s.since = at
	}
}

func (st *stream) lookAtAllHosts() {
	for _, domain := range st.cut.domains() {
		st.routes.touch(domain, time.Time{})
	}
	for domain := range st.routes.accepted {
		st.routes.touch(domain, time.Time{})
	}
}

// settlesAt returns when the first configuration is sent though endpoints of some
// cluster were not asked for; zero when that is no question.
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

// sendRoutes sends the route configuration when there is another one to be
// accepted, and none on its way.
func (st *stream) sendRoutes(now time.Time) error {
	ch, s := &st.channels[rds], &st.routes
	if !ch.asked || !ch.wanted[envoy.RouteConfigurationName] || s.trial != nil || !st.free(rds) || !st.settled(now) {
		return nil
	}
	t := st.nextTrial()
	if t == nil && s.begun {
		return nil
	}
	if t == nil {
		t = &trial{}
	}
	s.begun = true
	t.all = st.compose(t.hosts)
	t.version = configurationVersion(st.server, t.all)
	s.trial = t
	for _, h := range t.hosts {
		st.name(h, 1)
	}
	if !s.synced && ch.had == t.version {
		st.routesAnswered(t, "", "") // the Envoy has it, from another stream
		ch.answered = true
		return nil
	}
	content := st.cut.configuration(t.version, t.all)
	return st.send(&response{
		kind: rds, version: t.version,
		resources: []resource{{envoy.RouteConfigurationName, t.version, content}},
	}, &flight{trial: t})
}

// nextTrial returns the next change to send; nil when there is none that may be
// sent now.
func (st *stream) nextTrial() *trial {
	s := &st.routes
	if len(s.suspects) == 0 || s.probed {
		if t := st.news(); t != nil {
			return t
		}
	}
	for len(s.suspects) > 0 {
		group := s.suspects[0]
		s.suspects = s.suspects[1:]
		hosts := make(map[string]*host)
		for _, domain := range group {
			delete(s.suspected, domain)
			if h, send := st.due(domain); send {
				hosts[domain] = h
				delete(s.stale, domain)
			}
		}
		if len(hosts) > 0 {
			s.probed = true
			return &trial{hosts: hosts, suspects: true}
		}
	}
	return st.news()
}

// news returns a change of what is stale and may be sent; nil when there is none.
func (st *stream) news() *trial {
	s := &st.routes
	hosts := st.fresh()
	if len(hosts) == 0 {
		return nil
	}
	t := &trial{hosts: hosts, since: s.since}
	s.since, s.probed = time.Time{}, false
	return t
}

// fresh takes what is stale and may be sent.
func (st *stream) fresh() map[string]*host {
	s := &st.routes
	hosts := make(map[string]*host)
	for domain := range s.stale {
		if s.suspected[domain] {
			continue
		}
		h, send := st.due(domain)
		if send {
			hosts[domain] = h
		}
		if send || h == nil {
			delete(s.stale, domain)
		}
	}
	if len(s.stale) == 0 && len(hosts) == 0 {
		s.since = time.Time{}
	}
	return hosts
}

// due returns what a domain has to be, and whether to send it. It returns a host
// that is not to be sent when that waits for its clusters.
func (st *stream) due(domain string) (*host, bool) {
	s := &st.routes
	h, has := st.host(domain), s.accepted[domain]
	switch {
	case h == nil:
		return nil, has != nil
	case has != nil && has.version == h.version, s.refused[h.version]:
		return nil, false
	}
	for _, name := range h.clusters {
		if st.cold(name) {
			return h, false
		}
	}
	return h, true
}

// compose returns the accepted virtual hosts with some changed, in order.
func (st *stream) compose(changed map[string]*host) []*host {
	s := &st.routes
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
		add(s.accepted[domain])
	}
	for _, domain := range rest {
		add(changed[domain])
	}
	if len(all) == 0 || all[0].vh.Domain != anyDomain {
		all = slices.Insert(all, 0, st.server.noMatch)
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

// name counts the clusters that a virtual host names, which have to stay.
func (st *stream) name(h *host, times int) {
	if h == nil {
		return
	}
	for _, name := range h.clusters {
		st.clusters.of(name).named += times
		st.clusters.forget(name)
	}
}

// routesAnswered notes whether a route configuration was taken. It is taken or
// refused as a whole.
func (st *stream) routesAnswered(t *trial, refusal, reason string) {
	s := &st.routes
	s.trial = nil
	if refusal == "" {
		st.routesAccepted(t)
		return
	}
	var changed []string
	for domain, h := range t.hosts {
		st.name(h, -1)
		s.stale[domain] = struct{}{}
		if h != nil {
			changed = append(changed, domain)
		}
	}
	slices.Sort(changed)
	if h := t.named(refusal); h != nil {
		st.convict(h, reason)
		return
	}
	switch len(changed) {
	case 0:
		// What goes cannot be wrong: wait for something else to change.
		st.log.Error("Envoy refuses routes of which none is new; this is an error of the interceptor", "reason", reason)
		for domain := range t.hosts {
			delete(s.stale, domain)
		}
	case 1:
		st.convict(t.hosts[changed[0]], reason)
	default:
		half := len(changed) / 2
		s.suspects = append(s.suspects, changed[:half], changed[half:])
		for _, domain := range changed {
			s.suspected[domain] = true
		}
		s.probed = t.suspects
	}
}

func (st *stream) routesAccepted(t *trial) {
	s := &st.routes
	for domain, h := range t.hosts {
		st.name(s.accepted[domain], -1)
		if h == nil {
			delete(s.accepted, domain)
		} else {
			s.accepted[domain] = h
		}
	}
	s.synced = true
	s.order = s.order[:0]
	for _, h := range t.all {
		if h != st.server.noMatch {
			s.order = append(s.order, h.vh.Domain)
		}
	}
	if !t.since.IsZero() {
		st.server.metrics.latency.Observe(time.Since(t.since).Seconds())
	}
	for _, refused := range st.server.triedAgain() {
		if st.took(refused) {
			st.server.resolve(refused)
		}
	}
}

// took tells whether an Envoy has an object as it is now, in all of its domains.
func (st *stream) took(refused *refusal) bool {
	route := st.table.Route(refused.route.Name)
	if st.place < refused.since || route == nil || !st.cut.has(route.Name.Namespace) || st.lacksOneOf(route) {
		return false
	}
	for _, domain := range route.Hosts() {
		h, has := st.host(domain), st.routes.accepted[domain]
		if h == nil || has == nil || h.version != has.version {
			return false
		}
	}
	return true
}

// convict has a virtual host that is refused sent no more.
func (st *stream) convict(h *host, reason string) {
	s := &st.routes
	s.refused[h.version] = true
	st.log.Warn("Envoy refuses a virtual host", "domain", h.vh.Domain, "reason", reason)
	st.server.refuse(st.server.render.culprits(h, s.accepted, reason), h.vh.Domain)
}

// place is how Envoy names a virtual host whose fields are not as they should be.
var place = regexp.MustCompile(`RouteConfigurationValidationError\.VirtualHosts\[(\d+)\]`)

// named returns the virtual host that Envoy says is wrong, if it says so of one
// that is new.
func (t *trial) named(refusal string) *host {
	found := place.FindStringSubmatch(refusal)
	if found == nil {
		return nil
	}
	i, err := strconv.Atoi(found[1])
	if err != nil || i >= len(t.all) {
		return nil
	}
	if h := t.all[i]; t.hosts[h.vh.Domain] == h {
		return h
	}
	return nil
}
