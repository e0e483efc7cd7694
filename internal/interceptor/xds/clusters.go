package xds

import (
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// clusterSync says which clusters and endpoints an Envoy has, and which of them may be
// out of date.
type clusterSync struct {
	known map[string]*cluster
	// unknownBytes is about the memory of those of known that are not in the table.
	unknownBytes int
	wanted       map[string]bool // clusters whose endpoints the Envoy subscribes to
	// stale and staleAssignments are the clusters and the assignments to look at, and
	// since when.
	stale, staleAssignments map[string]time.Time
	// leaving are clusters that are gone from the table and still in the Envoy.
	leaving map[string]*cluster
	// changed tells that a cluster was added or removed, refused or accepted, or became
	// warm, since sendRoutes looked last: an object that had to wait may be due now.
	changed bool
	// sentSet is the combined version of all clusters that the Envoy has or was sent,
	// and assignedSet that of all assignments that were sent and are subscribed to.
	sentSet, assignedSet version
}

// cluster is one cluster on one stream.
type cluster struct {
	// backend is the cluster's backend in the table, or its last one when the cluster
	// is gone; nil for a cluster that was never in the table.
	backend *routes.Backend
	gone    bool
	// sent and assigned are the versions of cluster and assignment that the
	// Envoy has, or was sent last.
	sent, assigned version
	// again tells to send the assignment even if it is unchanged: a cluster that is
	// replaced warms until an assignment arrives.
	again bool
	// refused tells that the Envoy refused the cluster. It is false again once the
	// cluster is sent in another form, until the Envoy answers.
	refused bool
	// doubted tells that the Envoy refused a response with the cluster, or its endpoints,
	// and did not say which resource is at fault.
	doubted bool
	// withheld tells that the assignment is not sent, because making it panicked.
	withheld bool
	// named counts the virtual hosts, accepted or in an unanswered push, that name it.
	named int
	// free is when the cluster was first seen gone from the table and not named.
	free time.Time
}

// warm tells that the Envoy has or was sent the cluster's assignment, so that routes may
// name the cluster.
func (c *cluster) warm() bool { return c != nil && c.assigned > absent }

func newClusterSync() clusterSync {
	return clusterSync{
		known: make(map[string]*cluster), wanted: make(map[string]bool),
		stale: make(map[string]time.Time), staleAssignments: make(map[string]time.Time),
		leaving: make(map[string]*cluster),
	}
}

func (s *clusterSync) of(name string) *cluster {
	c := s.known[name]
	if c == nil {
		c = &cluster{}
		s.known[name] = c
		s.unknownBytes += clusterBytes + len(name)
	}
	return c
}

// forget drops a cluster that is not in the table, if the Envoy does not have it, no
// virtual host names it, and its endpoints are not subscribed to.
func (s *clusterSync) forget(name string) {
	if c := s.known[name]; c != nil && (c.backend == nil || c.gone) && c.sent == 0 && c.named == 0 && !s.wanted[name] {
		delete(s.known, name)
		delete(s.leaving, name)
		s.unknownBytes -= clusterBytes + len(name)
	}
}

// touch notes that a cluster has to be looked at, and touchAssignment that its
// assignment has to be.
func (s *clusterSync) touch(name string) { since(s.stale, name) }

func (s *clusterSync) touchAssignment(name string) { since(s.staleAssignments, name) }

func (s *clusterSync) touchAssignments() {
	for name := range s.wanted {
		s.touchAssignment(name)
	}
}

// since adds a name with the current time; a name that is there already keeps its time.
func since(all map[string]time.Time, name string) {
	if _, there := all[name]; !there {
		all[name] = time.Now()
	}
}

// without deletes a key from a map. It returns the map or, when that is empty, a new one:
// a map never gives back the memory of its deleted entries.
func without[K comparable, V any](all map[K]V, key K) map[K]V {
	if delete(all, key); len(all) == 0 {
		return make(map[K]V)
	}
	return all
}

func (s *clusterSync) setSent(name string, c *cluster, v version) {
	s.sentSet = replaced(s.sentSet, name, c.sent, v)
	c.sent = v
}

func (s *clusterSync) setAssigned(name string, c *cluster, v version) {
	s.changed = s.changed || (c.assigned > absent) != (v > absent)
	s.assignedSet = replaced(s.assignedSet, name, c.assigned, v)
	c.assigned = v
}

// replaced returns the combined version of a set in which the version of one resource
// changes; version 0 stands for a resource that is not in the set.
func replaced(set version, name string, before, after version) version {
	for _, v := range []version{before, after} {
		if v != 0 {
			set = combined(set, name, v)
		}
	}
	return set
}

// nextRemoval returns when the next cluster may be removed; zero for none.
func (s *clusterSync) nextRemoval(linger time.Duration) time.Time {
	var next time.Time
	for _, c := range s.leaving {
		if at := c.free.Add(linger); !c.free.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

func (st *stream) updateAllClusters() {
	there := make(map[string]bool)
	for route := range st.table.Routes() {
		if !st.namespaces.HasObject(route.Name) {
			continue
		}
		for i := range route.Backends {
			b := &route.Backends[i]
			there[b.Cluster] = true
			st.updateCluster(b.Cluster, b)
		}
	}
	for name := range st.clusters.known {
		if !there[name] {
			st.updateCluster(name, nil)
		}
	}
	st.clusters.touchAssignments()
}

// updateCluster notes the backend that a cluster has in the table now; nil if the cluster
// is gone.
func (st *stream) updateCluster(name string, b *routes.Backend) {
	s := &st.clusters
	if b != nil {
		c := s.of(name)
		if c.backend == nil || c.gone {
			s.unknownBytes -= clusterBytes + len(name)
		}
		c.backend, c.gone, c.free = b, false, time.Time{}
		delete(s.leaving, name)
		s.touch(name)
		s.touchAssignment(name)
		return
	}
	if object, _, ok := routes.ParseClusterName(name); ok {
		st.withdrawRefusal(object, cds, name)
		st.withdrawRefusal(object, eds, name)
	}
	c := s.known[name]
	if c == nil {
		return
	}
	if c.backend != nil && !c.gone {
		s.unknownBytes += clusterBytes + len(name)
	}
	c.gone = true
	if c.sent != 0 {
		s.leaving[name] = c
	}
	s.touchAssignment(name)
	s.forget(name)
}

// hasFromBefore adds a cluster that an Envoy has from an earlier stream.
func (st *stream) hasFromBefore(name string, v version) {
	c := st.clusters.of(name)
	st.clusters.setSent(name, c, v)
	if c.backend == nil || c.gone {
		c.gone = true
		st.clusters.leaving[name] = c
	}
}

// subscribe and unsubscribe note that an Envoy wants or no longer wants the endpoints of
// a cluster. has is the version of the endpoints that it has.
func (st *stream) subscribe(name string, has version) {
	s := &st.clusters
	c := s.of(name)
	s.wanted[name], s.changed = true, true
	s.setAssigned(name, c, has)
	s.touchAssignment(name)
}

func (st *stream) unsubscribe(name string) {
	s := &st.clusters
	delete(s.wanted, name)
	s.changed = true
	if c := s.known[name]; c != nil {
		s.setAssigned(name, c, 0)
		s.forget(name)
	}
}

// sendClusters sends clusters that are new or have changed, and removes clusters that
// the Envoy no longer needs.
func (st *stream) sendClusters(now time.Time) error {
	ch, s := &st.channels[cds], &st.clusters
	if !ch.asked {
		return nil
	}
	st.adoptClusters()
	if at := st.namesAt(); now.Before(at) {
		return nil
	}
	for st.free(cds) {
		r := &response{kind: cds}
		for name := range s.stale {
			if st.delta && len(r.resources) == chunk {
				break
			}
			s.stale = without(s.stale, name)
			c := s.known[name]
			if c == nil || c.gone || c.backend == nil {
				continue
			}
			v := st.server.render.clusterVersion(c.backend)
			if v == c.sent {
				continue
			}
			// With the state of the world, an Envoy says which clusters it has from
			// an earlier stream by asking for their endpoints.
			if c.sent != 0 || s.wanted[name] {
				c.again = true
				s.touchAssignment(name)
			}
			s.setSent(name, c, v)
			c.refused, s.changed = false, true
			r.resources = append(r.resources, st.cluster(name, c))
		}
		r.removed = st.removals(now)
		if len(r.resources) == 0 && len(r.removed) == 0 && ch.answered {
			return nil
		}
		changed := r.resources
		r.version = s.sentSet
		if !st.delta {
			r.resources = st.allClusters()
		} else {
			sortResources(r.resources)
		}
		f := &flight{names: make([]string, len(changed))}
		for i := range changed {
			f.names[i] = changed[i].name
		}
		if err := st.send(r, f); err != nil {
			return err
		}
	}
	return nil
}

// adoptClusters notes that an Envoy has clusters from an earlier stream, if it says so.
func (st *stream) adoptClusters() {
	ch := &st.channels[cds]
	if ch.answered {
		return
	}
	if st.delta {
		// The Envoy has some clusters: it needs no response to begin.
		if st.clusters.sentSet != 0 {
			ch.adopt(st.clusters.sentSet)
		}
		return
	}
	if ch.had == 0 {
		return
	}
	var all version
	for name, c := range st.clusters.known {
		if c.backend != nil && !c.gone {
			all = combined(all, name, st.server.render.clusterVersion(c.backend))
		}
	}
	if all != ch.had {
		st.adoptGone()
		return
	}
	for name, c := range st.clusters.known {
		if c.backend != nil && !c.gone {
			st.clusters.setSent(name, c, st.server.render.clusterVersion(c.backend))
		}
	}
	ch.adopt(all)
}

// namesAt returns until when sendClusters waits for an Envoy to say which clusters it has
// from an earlier stream: with the state of the world, the Envoy says so by asking for
// their endpoints. It returns zero if there is nothing to wait for.
func (st *stream) namesAt() time.Time {
	ch := &st.channels[cds]
	if st.delta || !ch.asked || ch.answered || ch.had == 0 || st.channels[eds].asked {
		return time.Time{}
	}
	return ch.since.Add(st.server.settle)
}

// adoptGone notes the clusters that an Envoy has from an earlier stream, with the state
// of the world, and that have gone from the table meanwhile: the Envoy's routes may name
// them until it has the current routes. Their protocol is not known; they are sent with
// the most common one. A cluster of that protocol is unchanged, and goes on serving with
// the endpoints that it has. Any other goes on serving too, until its replacement gets
// endpoints, which are not sent.
func (st *stream) adoptGone() {
	s := &st.clusters
	for name := range s.wanted {
		c := s.known[name]
		if c.sent != 0 || c.backend != nil && !c.gone || !st.hasCluster(name) {
			continue
		}
		c.backend, c.gone = &routes.Backend{Cluster: name}, true
		s.setSent(name, c, st.server.render.clusterVersion(c.backend))
		// The endpoints that the Envoy has count as sent. If the cluster comes back,
		// its own endpoints are sent.
		s.setAssigned(name, c, st.server.render.assignmentVersion(c.backend, st.fallback))
		c.again = true
		s.leaving[name] = c
	}
}

// removals takes out the clusters that may be removed, and returns their names. No
// cluster is removed before the Envoy is known to have routes that do not name it.
func (st *stream) removals(now time.Time) []string {
	s := &st.clusters
	if len(s.leaving) == 0 || !st.routes.synced {
		return nil
	}
	var removed []string
	for name, c := range s.leaving {
		switch {
		case c.named > 0:
			c.free = time.Time{}
		case c.free.IsZero():
			c.free = now
		}
		if c.free.IsZero() || now.Sub(c.free) < st.server.settings.Linger {
			continue
		}
		delete(s.leaving, name)
		// If the cluster comes back before the Envoy unsubscribes from its
		// endpoints, it has to become warm like a new one.
		s.setSent(name, c, 0)
		s.setAssigned(name, c, 0)
		removed = append(removed, name)
		s.forget(name)
	}
	slices.Sort(removed)
	return removed
}

func (st *stream) cluster(name string, c *cluster) resource {
	return newResource(name, c.sent, marshal(st.server.render.Cluster(c.backend)))
}

// allClusters returns the clusters of a response of the state of the world: Envoy removes
// a cluster that is not in it.
func (st *stream) allClusters() []resource {
	all := make([]resource, 0, len(st.clusters.known))
	for name, c := range st.clusters.known {
		if c.backend != nil && c.sent != 0 {
			all = append(all, st.cluster(name, c))
		}
	}
	sortResources(all)
	return all
}

func sortResources(all []resource) {
	slices.SortFunc(all, func(a, b resource) int { return strings.Compare(a.name, b.name) })
}

// sendEndpoints answers every subscription, and sends the assignments that have changed.
func (st *stream) sendEndpoints(time.Time) error {
	ch, s := &st.channels[eds], &st.clusters
	if !ch.asked {
		return nil
	}
	st.adoptEndpoints()
	for len(s.staleAssignments) > 0 && st.free(eds) {
		r := &response{kind: eds}
		for name := range s.staleAssignments {
			if st.delta && len(r.resources)+len(r.removed) == chunk {
				break
			}
			st.addAssignment(r, name)
		}
		if len(r.resources) == 0 && len(r.removed) == 0 {
			return nil
		}
		r.version = s.assignedSet
		sortResources(r.resources)
		slices.Sort(r.removed)
		f := &flight{names: make([]string, len(r.resources))}
		for i := range r.resources {
			f.names[i] = r.resources[i].name
		}
		if err := st.send(r, f); err != nil {
			return err
		}
	}
	return nil
}

// addAssignment adds an assignment to a response, unless the Envoy has it or does
// not want it.
func (st *stream) addAssignment(r *response, name string) {
	s := &st.clusters
	c := s.known[name]
	if c == nil || !s.wanted[name] {
		s.staleAssignments = without(s.staleAssignments, name)
		return
	}
	if _, stale := s.stale[name]; stale && st.channels[cds].asked {
		return // it is sent after its cluster
	}
	s.staleAssignments = without(s.staleAssignments, name)
	if c.gone && c.sent != 0 && c.assigned > absent {
		return // a leaving cluster keeps the endpoints that it has
	}
	if c.backend == nil || c.gone && c.sent == 0 {
		if c.assigned == absent {
			return
		}
		s.setAssigned(name, c, absent)
		if st.delta {
			r.removed = append(r.removed, name)
		} else {
			empty := marshal(&endpointv3.ClusterLoadAssignment{ClusterName: name})
			r.resources = append(r.resources, newResource(name, absent, empty))
		}
		return
	}
	v := st.server.render.assignmentVersion(c.backend, st.fallback)
	if v == c.assigned && !c.again {
		if object, _, ok := routes.ParseClusterName(name); ok && c.withheld {
			c.withheld = false
			st.withdrawRefusal(object, eds, name)
		}
		return
	}
	var content []byte
	if err := attempt(func() error { content = st.server.assignment(c.backend, st.fallback); return nil }); err != nil {
		if route := routeOf(st.table, name); route != nil {
			c.withheld = true
			st.refuses(route, eds, name, "spec.scaleTargetRef", "the endpoints of "+name, err, "that kedify-proxy keeps the endpoints that it had")
		}
		return
	}
	c.again, c.withheld = false, false
	s.setAssigned(name, c, v)
	r.resources = append(r.resources, newResource(name, v, content))
}

// adoptEndpoints notes that an Envoy already has all endpoints that it asks for, if it
// says so with the state of the world.
func (st *stream) adoptEndpoints() {
	ch, s := &st.channels[eds], &st.clusters
	if st.delta || ch.answered || ch.had == 0 {
		return
	}
	had := ch.had
	ch.had = 0
	var all version
	for name := range s.wanted {
		c := s.known[name]
		if c.backend == nil || c.gone || c.again {
			return
		}
		all = combined(all, name, st.server.render.assignmentVersion(c.backend, st.fallback))
	}
	if all != had {
		return
	}
	for name := range s.wanted {
		c := s.known[name]
		s.setAssigned(name, c, st.server.render.assignmentVersion(c.backend, st.fallback))
	}
	ch.adopt(all)
}

// clustersAnswered notes which clusters or endpoints the Envoy accepted. Envoy accepts
// the good ones and names the others in its refusal; these are not sent again until they
// change.
func (st *stream) clustersAnswered(k kind, names []string, refusal string) {
	// Both names and refusal may name thousands of clusters: refusal is read once.
	sent, refused := make(map[string]bool, len(names)), make(map[string]bool)
	for _, name := range names {
		sent[name] = true
	}
	explained := refusal == ""
	for word := range wordsOf(refusal) {
		if sent[word] && !refused[word] {
			refused[word] = true
			st.clusterRefused(k, word, refusal)
		}
		// With the state of the world each response has all clusters, also those
		// that were refused before.
		if c := st.clusters.known[word]; k == cds && c != nil && c.refused {
			explained = true
		}
	}
	if !explained {
		// It is not known which resource is refused, unless the refusal names some.
		for _, name := range names {
			if c := st.clusters.known[name]; c != nil && len(refused) == 0 {
				c.doubted = true
			}
		}
		return
	}
	taken := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return refused[name] })
	for _, name := range taken {
		if c := st.clusters.known[name]; c != nil {
			if k == cds && c.refused {
				c.refused, st.clusters.changed = false, true
			}
			c.doubted = false
		}
		if object, _, ok := routes.ParseClusterName(name); ok {
			st.withdrawRefusal(object, k, name)
		}
	}
}

func (st *stream) clusterRefused(k kind, name, refusal string) {
	if c := st.clusters.known[name]; c != nil && k == cds {
		c.refused, st.clusters.changed = true, true
	}
	route := routeOf(st.table, name)
	if route == nil {
		return
	}
	what, stays := "the endpoints of "+name, "that kedify-proxy keeps the endpoints that it had"
	if k == cds {
		what, stays = "the cluster "+name, "that kedify-proxy keeps the cluster that it had"
		if st.lacks(name) {
			stays = st.consequence(route)
		}
	}
	st.refuses(route, k, name, "spec.scaleTargetRef", what, errors.New(refusal), stays)
}

// lacks tells whether the Envoy refuses a cluster and has no earlier one of that name, so
// that no route may name it.
func (st *stream) lacks(name string) bool {
	c := st.clusters.known[name]
	return c != nil && c.refused && !c.warm() && !st.clusters.wanted[name]
}

// routeOf returns the route that a cluster belongs to; nil when it is gone.
func routeOf(table *routes.Table, cluster string) *routes.Route {
	object, _, ok := routes.ParseClusterName(cluster)
	if table == nil || !ok {
		return nil
	}
	return table.Route(object)
}

// hasCluster tells whether a cluster is of an object that the Envoy gets.
func (st *stream) hasCluster(name string) bool {
	object, _, ok := routes.ParseClusterName(name)
	return ok && st.namespaces.HasObject(object)
}

// backendOf returns the backend of the cluster with this name; nil when it is gone.
func backendOf(table *routes.Table, cluster string) *routes.Backend {
	route := routeOf(table, cluster)
	if route == nil {
		return nil
	}
	for i := range route.Backends {
		if route.Backends[i].Cluster == cluster {
			return &route.Backends[i]
		}
	}
	return nil
}

// wordsOf yields the words of a text that may be names of clusters.
func wordsOf(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return !isOfName(r) }) {
			if !yield(strings.Trim(word, "./")) {
				return
			}
		}
	}
}

func isOfName(r rune) bool {
	return r == '-' || r == '.' || r == '/' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z'
}
