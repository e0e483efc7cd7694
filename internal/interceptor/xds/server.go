package xds

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
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
	// validate fails for routes that Envoy would refuse.
	validate func(*routes.Route) error
	// host makes a virtual host, and assignment an assignment.
	host       func(routes.VirtualHost) *host
	assignment func(*routes.Backend, envoy.Fallback) []byte

	envelope []byte // the RouteConfiguration without virtual hosts
	noMatch  *host

	closing   chan struct{}
	closeOnce sync.Once

	refusals *refusals

	mu      sync.Mutex
	now     view // without place, changes and complete, which look sets
	journal journal
	scopes  map[string]*scope
	streams map[*stream]struct{}
	servers []*grpc.Server
}

// view is a snapshot of what there is to send to Envoys.
type view struct {
	table    *routes.Table  // of valid objects; nil until the first Update
	invalid  invalidObjects // that table lacks, or has in their last valid form
	fallback []netip.AddrPort
	secret   []byte // nil without a certificate

	place    uint64 // the end of the journal
	changes  []change
	complete bool // changes are all changes since the place asked for
}

// New makes a Server. Settings have to be valid. Nothing is sent before the first
// Update.
func New(settings Settings, translator *envoy.Translator, log *slog.Logger) *Server {
	s := &Server{
		settings: settings,
		render:   newRenderer(translator),
		log:      log,
		metrics:  newMetrics(),
		settle:   settleTime,
		envelope: marshal(translator.RouteConfiguration(nil)),
		closing:  make(chan struct{}),
		scopes:   make(map[string]*scope),
		streams:  make(map[*stream]struct{}),
		refusals: newRefusals(),
	}
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

// Serve serves Envoys on a listener, with TLS unless config is nil. It returns nil once
// Shutdown is called, and otherwise the error of the listener.
func (s *Server) Serve(l net.Listener, config *tls.Config) error {
	options := []grpc.ServerOption{
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: s.settings.KeepaliveTime, Timeout: s.settings.KeepaliveTimeout,
			MaxConnectionAge: s.settings.MaxConnectionAge, MaxConnectionAgeGrace: s.settings.MaxConnectionAge, // 0 is for ever
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: s.settings.KeepaliveMinTime, PermitWithoutStream: true}),
		grpc.MaxConcurrentStreams(s.settings.MaxConcurrentStreams),
		grpc.MaxRecvMsgSize(maxRequestBytes),
		grpc.ConnectionTimeout(handshakeTime),
		grpc.StreamInterceptor(s.guard),
	}
	if config != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(config)))
	}
	server := grpc.NewServer(options...)
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, &service{server: s})
	s.mu.Lock()
	select {
	case <-s.closing:
		s.mu.Unlock()
		return l.Close()
	default:
	}
	s.servers = append(s.servers, server)
	s.mu.Unlock()
	if err := server.Serve(l); err != nil {
		return fmt.Errorf("serving xDS on %s: %w", l.Addr(), err)
	}
	return nil
}

// Shutdown ends all streams. Their Envoys go on serving with what they have and connect
// to another interceptor. It returns when ctx is done at the latest; connections that
// have not ended by then are cut.
func (s *Server) Shutdown(ctx context.Context) {
	s.closeOnce.Do(func() { close(s.closing) })
	s.mu.Lock()
	servers := s.servers
	s.servers = nil
	s.mu.Unlock()
	for _, server := range servers {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			server.GracefulStop()
		}()
		select {
		case <-ended:
		case <-ctx.Done():
			// Stop waits for connections that have not sent anything yet;
			// Shutdown does not wait for Stop.
			go server.Stop()
		}
	}
}

// look returns a snapshot, and what changed since a place in the journal.
func (s *Server) look(place uint64) view {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now
	now.place = s.journal.end()
	now.changes, now.complete = s.journal.since(place)
	return now
}

// wakeAll wakes every stream, which then looks. It is called with mu held.
func (s *Server) wakeAll() {
	for st := range s.streams {
		st.wakeUp()
	}
}

// join adds a stream to the scope of its namespaces, and leave removes it. join fails if
// the stream's address has Settings.MaxConcurrentStreams streams already.
func (s *Server) join(st *stream, namespaces []string) error {
	key := strings.Join(namespaces, "/")
	s.mu.Lock()
	defer s.mu.Unlock()
	same := uint32(1)
	for other := range s.streams {
		if other.address == st.address {
			same++
		}
	}
	if same > s.settings.MaxConcurrentStreams {
		return status.Errorf(codes.ResourceExhausted, "%s has %d streams already; --xds-max-concurrent-streams allows more", st.address, same-1)
	}
	c := s.scopes[key]
	if c == nil {
		c = &scope{server: s, key: key, hosts: make(map[string]*host)}
		if namespaces != nil {
			c.namespaces = make(routes.Namespaces, len(namespaces))
			for _, name := range namespaces {
				c.namespaces[name] = true
			}
		}
		s.scopes[key] = c
	}
	c.streams++
	st.scope = c
	s.streams[st] = struct{}{}
	return nil
}

func (s *Server) leave(st *stream) {
	for what := range st.claims {
		s.refusals.remove(st, what)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, st)
	if st.scope.streams--; st.scope.streams == 0 {
		delete(s.scopes, st.scope.key)
	}
}
