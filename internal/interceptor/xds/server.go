package xds

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
	"weak"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	loadstatsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/loads"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/peerlimit"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// maxRequestBytes bounds one request. An Envoy that reconnects names all resources that
// it has, about 200 bytes for each cluster.
const maxRequestBytes = 16 << 20

// handshakeTime is how long the handshake of a connection may take, TLS included.
const handshakeTime = 10 * time.Second

// settleTime is how long the first route configuration of a stream waits for an
// Envoy to ask for the endpoints of all clusters.
const settleTime = 15 * time.Second

// Server serves the routing table to Envoys. All methods are safe for any number of
// goroutines, except Update, which one goroutine calls, in order.
type Server struct {
	settings Settings
	render   renderer
	log      *slog.Logger
	metrics  *metrics
	settle   time.Duration
	// minBackoff is the first delay of a backoff.
	minBackoff time.Duration
	// validate fails for routes that Envoy would refuse.
	validate func(*routes.Route) error
	hosts    hostCache
	// host makes a virtual host, and assignment an assignment.
	host       func(routes.VirtualHost) *host
	assignment func(*routes.Backend, envoy.Fallback) []byte

	envelope []byte // the RouteConfiguration without virtual hosts
	noMatch  *host

	updated   chan struct{} // closed with the first Update
	closing   chan struct{}
	closeOnce sync.Once

	refusals *refusals

	streamLimit *peerlimit.Limit
	connections openConnections

	ledger    *loads.Ledger
	reporters reporters

	mu      sync.Mutex
	now     snapshot // without position, changes and complete, which snapshotSince sets
	journal journal
	// latest is the table of the last Update, and objects are those in it.
	latest  *routes.Table
	objects objectNames
	streams map[*stream]struct{}
	servers []*grpc.Server
	// draining are the servers of earlier withdrawals that have streams of load reports.
	draining []*grpc.Server
	// withdrawal is the one under way, or the next.
	withdrawal *withdrawal
}

// snapshot is what there is to send to Envoys.
type snapshot struct {
	table    *routes.Table  // of valid objects; nil until the first Update
	invalid  invalidObjects // that table lacks, or has in their last valid form
	fallback []netip.AddrPort
	secret   []byte // nil without a certificate

	position uint64 // the end of the journal
	changes  []change
	complete bool // changes are all changes since the position asked for
}

// New makes a Server, which tells the ledger what Envoys report. Settings have to be valid.
// Nothing is sent before the first Update.
func New(settings Settings, translator *envoy.Translator, ledger *loads.Ledger, log *slog.Logger) *Server {
	s := &Server{
		settings: settings,
		render:   newRenderer(translator),
		log:      log,
		metrics:  newMetrics(),
		settle:   settleTime,

		minBackoff: minBackoff,

		envelope: marshal(translator.RouteConfiguration(nil)),
		updated:  make(chan struct{}),
		closing:  make(chan struct{}),
		hosts:    hostCache{byDomain: make(map[string][]weak.Pointer[host])},
		objects:  make(objectNames),
		streams:  make(map[*stream]struct{}),
		refusals: newRefusals(),

		withdrawal: newWithdrawal(),

		ledger:    ledger,
		reporters: reporters{ledger: ledger, patience: reportTime, known: make(map[proxyName]*reporter)},
	}
	s.connections.log, s.connections.open = log, make(map[string]*trackedConn)
	s.streamLimit = peerlimit.New(settings.MaxStreams, int(settings.MaxConcurrentStreams))
	s.validate, s.host, s.assignment = s.render.Check, s.render.host, s.render.assignment
	s.noMatch = s.render.host(routes.VirtualHost{Domain: "*"})
	return s
}

// Update sends what changed to the Envoys. It notes the changes and returns at once: its
// cost follows the changes. table and changes are as a Builder's Commit returned them.
func (s *Server) Update(table *routes.Table, changes routes.Changes) {
	at := time.Now()
	s.mu.Lock()
	first, wereInvalid := s.now.table == nil, s.now.invalid
	s.latest = table
	s.objects.update(table, changes, first)
	admitted, changes, opened, resolved := s.admit(table, changes)
	s.now.table = admitted
	noted := make([]change, 0, len(changes.Routes)+len(changes.Clusters))
	for i := range changes.Routes {
		c := &changes.Routes[i]
		_, was := wereInvalid[c.Name]
		_, is := s.now.invalid[c.Name]
		if was || is || c.Rerouted() {
			noted = append(noted, change{kind: anObject, object: c.Name, at: at})
		}
	}
	for i := range changes.Clusters {
		noted = append(noted, change{kind: aCluster, cluster: changes.Clusters[i].Name, at: at})
	}
	s.journal.add(noted...)
	if first {
		close(s.updated)
	}
	if first || len(noted) > 0 {
		s.wakeAll()
	}
	s.mu.Unlock()
	s.refusals.pass(opened, resolved)
}

// SetFallback sets the addresses of the interceptors' fallback listeners, which
// are the last resort of every cluster.
func (s *Server) SetFallback(addrs []netip.AddrPort) {
	addrs = slices.Clone(addrs)
	slices.SortFunc(addrs, netip.AddrPort.Compare)
	addrs = slices.Compact(addrs)
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Equal(addrs, s.now.fallback) {
		return
	}
	s.now.fallback = addrs
	s.journal.add(change{kind: allAssignments})
	s.wakeAll()
}

// SetCertificate sets the certificate chain and the key of the TLS listener, in PEM. It
// may be called again with another certificate.
func (s *Server) SetCertificate(certPEM, keyPEM []byte) {
	secret := marshal(envoy.Secret(certPEM, keyPEM))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.secret = secret
	s.wakeAll()
}

// OnProblems sets the function that is called when Problems open and when they resolve:
// of HTTPScaledObjects that Envoy would refuse, or that an Envoy refuses. Calls come one
// at a time and have to return soon. Call OnProblems before Update and Serve.
func (s *Server) OnProblems(tell func(opened, resolved []routes.Problem)) {
	s.refusals.mu.Lock()
	defer s.refusals.mu.Unlock()
	s.refusals.tell = tell
}

// Serve serves Envoys on a listener, with TLS unless config is nil. After Resume it serves
// on the listener that open returns. It returns nil once Shutdown is called, and otherwise
// the error of the listener.
func (s *Server) Serve(l net.Listener, config *tls.Config, open func() (net.Listener, error)) error {
	for l != nil {
		server, withdrawal := s.register(config)
		if server != nil {
			served := make(chan error, 1)
			go func() { served <- server.Serve(s.connections.listener(l)) }()
			select {
			case err := <-served:
				if err != nil && !errors.Is(err, grpc.ErrServerStopped) && !withdrawal.hasBegun() {
					return fmt.Errorf("serving xDS on %s: %w", l.Addr(), err)
				}
			case <-withdrawal.begun: // what is left of its streams may outlast the withdrawal
			}
		}
		_ = l.Close() // it may be closed
		var err error
		if l, err = s.await(withdrawal, open); err != nil {
			return err
		}
	}
	return nil
}

// register makes a gRPC server that Shutdown and Withdraw stop. It returns no server after
// Shutdown, and during a withdrawal.
func (s *Server) register(config *tls.Config) (*grpc.Server, *withdrawal) {
	options := []grpc.ServerOption{
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: s.settings.KeepaliveTime, Timeout: s.settings.KeepaliveTimeout,
			MaxConnectionAge: s.settings.MaxConnectionAge, MaxConnectionAgeGrace: s.settings.MaxConnectionAge, // 0 is for ever
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: s.settings.KeepaliveMinTime, PermitWithoutStream: true}),
		grpc.MaxConcurrentStreams(s.settings.MaxConcurrentStreams),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(maxRequestBytes),
		grpc.ConnectionTimeout(handshakeTime),
		grpc.StreamInterceptor(s.guard),
	}
	if config != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(config)))
	}
	server := grpc.NewServer(options...)
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, &service{server: s})
	loadstatsv3.RegisterLoadReportingServiceServer(server, &loadService{server: s})
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closing:
		return nil, s.withdrawal
	case <-s.withdrawal.begun:
		return nil, s.withdrawal
	default:
	}
	s.servers = append(s.servers, server)
	return server, s.withdrawal
}

var errShutdown = status.Error(codes.Unavailable, "this interceptor shuts down")

// Shutdown ends all streams. Their Envoys go on serving with what they have and connect
// to another interceptor. It returns when ctx is done at the latest; connections that
// have not ended by then are cut.
func (s *Server) Shutdown(ctx context.Context) {
	s.closeOnce.Do(func() { close(s.closing) })
	s.mu.Lock()
	servers := slices.Concat(s.servers, s.draining)
	s.servers = nil
	s.mu.Unlock()
	stop(ctx, servers)
}

// stop sends GOAWAY on all connections, and returns when they have ended, or ctx is done.
// Then it cuts them.
func stop(ctx context.Context, servers []*grpc.Server) {
	for _, server := range servers {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			server.GracefulStop()
		}()
		select {
		case <-ended:
		case <-ctx.Done():
			// Stop waits for connections that have not sent anything yet.
			go server.Stop()
		}
	}
}

// snapshotSince returns a snapshot, and what changed since a position in the journal.
func (s *Server) snapshotSince(position uint64) snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now
	now.position = s.journal.end()
	now.changes, now.complete = s.journal.since(position)
	return now
}

// wakeAll wakes every stream, which then looks. It is called with mu held.
func (s *Server) wakeAll() {
	for st := range s.streams {
		st.wakeUp()
	}
}

// join adds the stream of an Envoy for these namespaces, nil for all, and leave removes it.
// join fails during a withdrawal.
func (s *Server) join(st *stream, namespaces []string) error {
	st.namespaces = setOf(namespaces)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.withdrawal.hasBegun() {
		return errWithdrawn
	}
	st.until, st.withdrawn = s.withdrawal, s.withdrawal.begun
	s.streams[st] = struct{}{}
	return nil
}

// setOf returns these namespaces as a set; nil for nil.
func setOf(namespaces []string) routes.Namespaces {
	if namespaces == nil {
		return nil
	}
	set := make(routes.Namespaces, len(namespaces))
	for _, name := range namespaces {
		set[name] = true
	}
	return set
}

func (s *Server) leave(st *stream) {
	for what := range st.claims {
		s.refusals.remove(st, what)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, st)
}
