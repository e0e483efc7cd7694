package xds

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/certified"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/peerlimit"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// stream serves one Envoy. One goroutine does all of its work, and looks at the newest
// snapshot each time it may send: nothing is queued for an Envoy that is slow. Other
// goroutines only read its state.
type stream struct {
	server *Server
	// namespaces are those whose objects the Envoy gets; nil for all.
	namespaces routes.Namespaces
	wire       wire
	delta      bool
	log        *slog.Logger
	wake       chan struct{}
	begins     time.Time
	ends       time.Time // zero for never
	reason     error     // why it ends then
	// until is the withdrawal that ends it, and withdrawn is closed when that begins.
	until     *withdrawal
	withdrawn <-chan struct{}

	// mu guards the fields below. It is not held while the stream waits for the Envoy to
	// send a request, or to read a response.
	mu sync.Mutex

	// The last snapshot.
	begun    bool
	position uint64
	// shared is the table of all Envoys, and table is the one for this Envoy: it has
	// standIns, too.
	shared, table *routes.Table
	invalid       invalidObjects
	standIns      map[types.NamespacedName]standIn
	fallback      envoy.Fallback
	secret        []byte

	handOver handOver                     // how the Envoy reaches the fallback
	peer     string                       // address of the Envoy
	address  string                       // the same without its port
	pod      string                       // that the Envoy says it is; empty for none
	claims   map[subjectOfClaim]time.Time // that are in Server.refusals, since when
	warnings int                          // how many warn was asked to log
	untold   bool                         // it was logged that some claims have no Event

	nonces   uint64
	channels [kinds]channel
	ignored  map[string]bool // types that the Envoy asks for and the server does not have

	clusters clusterSync
	routes   routeSync
	small    [kinds]map[string]version // listeners and secrets that the Envoy has

	unknownBytes atomic.Int64 // copy of clusters.unknownBytes for other goroutines
}

func newStream(s *Server, w wire, delta bool) *stream {
	st := &stream{
		server: s, wire: w, delta: delta, log: s.log,
		begins: time.Now(), ends: s.settings.streamEnd(), reason: errOld,
		claims:   make(map[subjectOfClaim]time.Time),
		wake:     make(chan struct{}, 1),
		ignored:  make(map[string]bool),
		standIns: make(map[types.NamespacedName]standIn),
		clusters: newClusterSync(),
		routes:   newRouteSync(),
	}
	for k := range st.channels {
		st.channels[k].flights = make(map[string]*flight)
		st.channels[k].wanted = make(map[string]bool)
		st.small[k] = make(map[string]version)
	}
	return st
}

// serve serves an Envoy until its stream ends.
func (s *Server) serve(w wire, delta bool) error {
	client, ok := peer.FromContext(w.Context())
	if !ok {
		return status.Error(codes.Internal, "the address of the Envoy is not known")
	}
	from := client.Addr.String()
	log := s.log.With("envoy", from)
	defer s.streamLimit.Take(client.Addr, func() { s.displaced(client.Addr) }).Release()
	first, err := w.receive()
	if err != nil {
		return ending(err)
	}
	names, shown := shownBy(client)
	namespaces, err := s.namespacesFor(first.node, names)
	if err != nil {
		log.Warn("an Envoy was turned away", "reason", status.Convert(err).Message())
		return err
	}
	st := newStream(s, w, delta)
	st.log, st.peer, st.address, st.pod = log, from, peerlimit.Address(client.Addr), podOf(first.node)
	st.handOver = s.handsOver(first.node)
	connected := s.metrics.streams.WithLabelValues(st.protocol())
	connected.Inc()
	defer connected.Dec()
	if !names.Any() || !st.handOver.overTLS {
		s.metrics.unidentified.Inc()
		defer s.metrics.unidentified.Dec()
	}
	if err := s.join(st, namespaces); err != nil {
		log.Warn("an Envoy was turned away", "reason", status.Convert(err).Message())
		return err
	}
	defer s.leave(st)
	defer s.reporters.configures(proxyName{st.address, podWithin(st.pod, st.namespaces)})()
	log.Info("an Envoy is connected", "kind", st.protocol(), "namespaces", namespaces)
	if shown && !names.Any() {
		log.Warn("the certificate of an Envoy names no namespace, so that it gets those that it asks for; --xds-require-namespaces would turn it away", "expected", certified.Expected)
	}
	if shown && !st.handOver.overTLS {
		log.Warn("an Envoy hands over requests without TLS: its bootstrap has no TLS for port 8081; print it with this release, with --fallback-address", "plainHandOversTaken", !s.settings.RequireNamespaces)
	}
	defer log.Info("an Envoy has gone")
	return st.run(first)
}

func (st *stream) run(first *request) error {
	ctx := st.wire.Context()
	requests, failed := make(chan *request), make(chan error, 1)
	go func() {
		for {
			r, err := st.wire.receive()
			if err != nil {
				failed <- err
				return
			}
			select {
			case requests <- r:
			case <-ctx.Done():
				return
			}
		}
	}()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	said, changed := first, true
	for {
		next, err := st.process(said, changed)
		if err != nil {
			return ending(err)
		}
		if said != nil {
			st.server.connections.handled(st.peer, said.bytes)
		}
		timer.Reset(next)
		said, changed = nil, false
		select {
		case said = <-requests:
		case <-st.wake:
			changed = true
		case <-timer.C:
		case <-st.withdrawn:
			st.withdraw()
		case err := <-failed:
			return ending(err)
		case <-ctx.Done():
			return ctx.Err()
		case <-st.server.closing:
			return errShutdown
		}
	}
}

// process takes a request of the Envoy, nil for none, takes a new snapshot if changed is true, and
// sends what can be sent. It returns how long the stream may wait unless something
// happens.
func (st *stream) process(said *request, changed bool) (time.Duration, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if said != nil {
		st.handleRequest(said)
	}
	if changed {
		st.refresh()
	}
	next, err := st.advance()
	if err != nil || st.ends.IsZero() {
		return next, err
	}
	return st.age(next)
}

// protocol returns the protocol that the Envoy uses.
func (st *stream) protocol() string {
	if st.delta {
		return "delta"
	}
	return "sotw"
}

func ending(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (st *stream) wakeUp() {
	select {
	case st.wake <- struct{}{}:
	default: // a wake-up is pending already
	}
}

// refresh takes the newest snapshot, and marks what changed since the last one.
func (st *stream) refresh() {
	now := st.server.snapshotSince(st.position)
	if now.table == nil {
		return
	}
	if !st.begun {
		st.routes.table = now.table.Empty()
	}
	everything := !st.begun || !now.complete
	st.begun, st.position = true, now.position
	st.apply(now)
	if everything {
		st.updateAllClusters()
		st.touchAllObjects()
		return
	}
	for _, changed := range now.changes {
		switch changed.kind {
		case anObject:
			st.touch(changed.object, changed.at)
		case aCluster:
			if st.hasCluster(changed.cluster) {
				st.updateCluster(changed.cluster, backendOf(st.table, changed.cluster))
			}
		case allAssignments:
			st.clusters.touchAssignments()
		}
	}
}

// handleRequest notes what a request of the Envoy says.
func (st *stream) handleRequest(r *request) {
	k, known := kindOf(r.typeURL)
	if !known {
		if name := oneLine(r.typeURL); !st.ignored[name] && len(st.ignored) < 100 {
			st.ignored[name] = true
			st.log.Warn("an Envoy asks for a type of resource of which there is nothing here", "type", name)
		}
		return
	}
	ch := &st.channels[k]
	if r.nonce != "" {
		if !st.delta && r.nonce != ch.last && ch.last != "" {
			return // stale: the Envoy's answer to the last response will say the same
		}
		if f := ch.flights[r.nonce]; f != nil {
			delete(ch.flights, r.nonce)
			st.handleAnswer(k, f, r)
		}
	}
	first := !ch.asked
	if first {
		ch.asked, ch.since = true, time.Now()
		if r.version != "" {
			ch.had = parseVersion(r.version)
		}
		if k == rds {
			st.routes.setHad(cmp.Or(r.initial[envoy.RouteConfigurationName], r.version))
		}
	}
	st.dropLongNames(r)
	subscribe, unsubscribe := r.subscribe, r.unsubscribe
	if !st.delta {
		subscribe, unsubscribe = st.difference(k, r.names)
	}
	initial := make(map[string]version, len(r.initial))
	for name, text := range r.initial {
		initial[name] = parseVersion(text)
	}
	switch k {
	case cds:
		if first {
			for name, v := range initial {
				st.hasFromBefore(name, v)
			}
		}
	case eds:
		for _, name := range unsubscribe {
			st.unsubscribe(name)
		}
		for _, name := range subscribe {
			st.subscribe(name, initial[name])
		}
		if first && len(initial) > 0 {
			ch.has(st.clusters.assignedSet)
		}
	case lds:
		if first {
			st.small[lds] = initial
		}
	default:
		for _, name := range unsubscribe {
			delete(ch.wanted, name)
			delete(st.small[k], name)
		}
		for _, name := range subscribe {
			st.want(k, name, initial[name])
		}
	}
}

// maxNameBytes bounds the names of resources. The longest are the names of clusters, of
// three Kubernetes names of at most 253 bytes each.
const maxNameBytes = 1024

// dropLongNames drops the names from a request that are too long for a resource.
func (st *stream) dropLongNames(r *request) {
	tooLong := func(name string) bool {
		if len(name) <= maxNameBytes {
			return false
		}
		st.warn("an Envoy speaks of a resource that cannot be", "type", oneLine(r.typeURL), "name", oneLine(name), "bytes", len(name), "expected", maxNameBytes)
		return true
	}
	r.names, r.subscribe = slices.DeleteFunc(r.names, tooLong), slices.DeleteFunc(r.subscribe, tooLong)
	maps.DeleteFunc(r.initial, func(name, _ string) bool { return tooLong(name) })
}

const (
	// maxUnknownBytes bounds the memory for the clusters that an Envoy names and the table
	// does not have: one that comes back to a table with few of its clusters left is told
	// to remove the others. That is room for all that one request can name in practice.
	maxUnknownBytes = maxRequestBytes
	// clusterBytes is about the memory of a cluster on a stream, without its name.
	clusterBytes = 200
	// maxUnknownOfAddress bounds the same for all streams of one address.
	maxUnknownOfAddress = 4 * maxUnknownBytes
)

// bounded fails when an Envoy, or the Envoys of its address, name more clusters than they
// can have.
func (st *stream) bounded() error {
	own := st.clusters.unknownBytes
	st.unknownBytes.Store(int64(own))
	if own > maxUnknownBytes || own > maxUnknownBytes/100 && st.server.unknownBytesOf(st.address) > maxUnknownOfAddress {
		return status.Errorf(codes.ResourceExhausted, "this Envoy speaks of %d clusters, most of which are not there", len(st.clusters.known))
	}
	return nil
}

// unknownBytesOf returns about the memory for clusters that are not in the table, over all
// streams of an address.
func (s *Server) unknownBytesOf(address string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var sum int64
	for st := range s.streams {
		if st.address == address {
			sum += st.unknownBytes.Load()
		}
	}
	return sum
}

// onlyNames has the name of the resource, for types that have only one.
var onlyNames = [kinds]string{rds: envoy.RouteConfigurationName, sds: envoy.SecretName}

// want notes that an Envoy wants a resource, and the version that it has.
func (st *stream) want(k kind, name string, has version) {
	if only := onlyNames[k]; name != only {
		st.warn("an Envoy asks for a resource that is not there", "type", kindNames[k], "name", oneLine(name), "expected", only)
		return
	}
	st.channels[k].wanted[name] = true
	if k == rds {
		st.channels[rds].had = max(st.channels[rds].had, has)
		// An Envoy that asks again has dropped it.
		st.routes.begun, st.channels[rds].acknowledged = false, mark{}
		return
	}
	st.small[k][name] = has
}

// difference returns what a request of the state of the world adds to the names
// wanted, and what it drops.
func (st *stream) difference(k kind, names []string) (added, dropped []string) {
	wanted := st.channels[k].wanted
	if k == eds {
		wanted = st.clusters.wanted
	}
	now := make(map[string]bool, len(names))
	for _, name := range names {
		now[name] = true
		if !wanted[name] {
			added = append(added, name)
		}
	}
	for name := range wanted {
		if !now[name] {
			dropped = append(dropped, name)
		}
	}
	return added, dropped
}

// handleAnswer notes whether the Envoy accepted a response (ACK) or refused it (NACK).
func (st *stream) handleAnswer(k kind, f *flight, r *request) {
	ch, refusal := &st.channels[k], ""
	answer := mark{f.version, time.Now()}
	if r.refusal == nil {
		ch.acknowledged = answer
	} else {
		ch.refused = answer
		if refusal = r.refusal.GetMessage(); refusal == "" {
			refusal = "it does not say why"
		}
		st.server.metrics.nacks.WithLabelValues(kindNames[k]).Inc()
		st.warn("Envoy refuses what it was sent, and keeps what it had", "type", kindNames[k], "reason", oneLine(refusal))
	}
	switch k {
	case cds, eds:
		st.clustersAnswered(k, f.names, refusal)
	case rds:
		if f.push != nil {
			st.routesAnswered(f.push, refusal)
		}
	}
}

// advance sends all that can be sent now. It returns how long the stream may wait unless
// something happens.
func (st *stream) advance() (time.Duration, error) {
	if st.table == nil {
		return time.Hour, nil
	}
	if err := st.bounded(); err != nil {
		st.log.Warn("an Envoy is cut off", "reason", status.Convert(err).Message())
		return 0, err
	}
	st.adoptStandIns()
	now := time.Now()
	for _, send := range []func(time.Time) error{st.sendClusters, st.sendEndpoints, st.sendRoutes, st.sendListeners, st.sendSecret} {
		if err := send(now); err != nil {
			return 0, err
		}
	}
	next := time.Hour
	var removal time.Time
	if st.free(cds) { // else the Envoy's answer wakes the stream
		removal = st.clusters.nextRemoval(st.server.settings.Linger)
	}
	for _, at := range []time.Time{removal, st.settlesAt(), st.namesAt(), st.routes.backoff.until} {
		if !at.IsZero() {
			// A millisecond later than at: timers are not exact.
			next = min(next, max(time.Millisecond, time.Until(at)+time.Millisecond))
		}
	}
	return next, nil
}

// free tells whether another response of a type may be sent.
func (st *stream) free(k kind) bool {
	flights := len(st.channels[k].flights)
	if st.delta && k != rds {
		return flights < window
	}
	return flights == 0
}

// send sends a response. It blocks while the Envoy does not read, without mu: no other
// goroutine has to wait for it.
func (st *stream) send(r *response, f *flight) error {
	ch := &st.channels[r.kind]
	st.nonces++
	r.nonce = nonceOf(st.nonces)
	f.mark = mark{r.version, time.Now()}
	ch.answered, ch.last, ch.sent = true, r.nonce, f.mark
	ch.flights[r.nonce] = f
	st.server.metrics.pushes.WithLabelValues(kindNames[r.kind]).Inc()
	st.mu.Unlock()
	defer st.mu.Lock()
	return st.wire.send(r)
}
