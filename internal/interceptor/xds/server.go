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

// maxRequestBytes bounds one request. An Envoy that comes back names all that it
// has, about 200 bytes for each cluster.
const maxRequestBytes = 16 << 20

// handshakeTime is how long an Envoy may take to begin, TLS included.
const handshakeTime = 10 * time.Second

// settleTime is how long the first route configuration of a stream waits for an
// Envoy to ask for the endpoints of all clusters.
const settleTime = 15 * time.Second

// Server tells Envoys what is in the routing table. All methods are safe for any
// number of goroutines, except that Updates come in order from one.
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
	now     view // its changes are in the journal
	journal journal
	scopes  map[string]*scope
	streams map[*stream]struct{}
	servers []*grpc.Server
}

// view is what there is to tell, at one moment.
type view struct {
	table    *routes.Table  // of valid objects; nil until the first
	invalid  invalidObjects // that are not in table, or in their last valid form
	fallback []netip.AddrPort
	secret   []byte // nil without a certificate

	place    uint64 // in the journal
	changes  []change
	complete bool // changes are all there were
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

// Update has the Envoys told what changed. It notes it and returns: its cost
// follows the changes. Both are as a Builder's Commit returned them.
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

// SetCertificate sets what the TLS listener serves with, chain and key in PEM. It
// may be called again with another.
func (s *Server) SetCertificate(certPEM, keyPEM []byte) {
	secret := marshal(envoy.Secret(certPEM, keyPEM))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.secret = secret
	s.wakeAll()
}

// OnProblems sets who is told of HTTPScaledObjects that Envoy would refuse or that
// an Envoy refuses, and of those of which that is over. Calls come one at a time
// and have to return soon. Set it before Update and Serve.
func (s *Server) OnProblems(tell func(opened, resolved []routes.Problem)) {
	s.refusals.mu.Lock()
	defer s.refusals.mu.Unlock()
	s.refusals.tell = tell
}

// Serve serves Envoys on a listener, with TLS when a configuration for it is
// given. It returns nil once Shutdown is called, and otherwise what is wrong with
// the listener.
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

// Shutdown ends all streams, whose Envoys go on serving with what they have and
// turn to another interceptor. It returns with ctx at the latest; what has not
// ended by then is cut.
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
			// It waits for connections that have not said a word yet, and
			// nobody for it.
			go server.Stop()
		}
	}
}

// look returns what there is now, and what changed since a place in the journal.
func (s *Server) look(place uint64) view {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now
	now.place = s.journal.end()
	now.changes, now.complete = s.journal.since(place)
	return now
}

// wakeAll has every stream look. It is called with mu held.
func (s *Server) wakeAll() {
	for st := range s.streams {
		st.wakeUp()
	}
}

// join makes a stream one of a scope, and leave ends it. Of one address there are
// not more streams than one connection may have.
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
