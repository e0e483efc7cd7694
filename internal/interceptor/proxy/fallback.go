package proxy

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/certified"
)

var errNotFromEnvoy = errors.New("the connection does not begin with a PROXY protocol v2 header, as those of a kedify-proxy do")

// ServeFallback serves connections of kedify-proxies whose backend has no endpoint, as
// Serve does those of clients. A connection that does not begin with a PROXY protocol
// v2 header is closed. If the header names an HTTPScaledObject that exists, all requests
// of the connection belong to that object, whatever their host, path and headers are.
// X-Forwarded-* are left as they come: Envoy has added the client already.
func (s *Server) ServeFallback(l net.Listener, peers FallbackPeers) error {
	return ended(l, s.fallback.Serve(&fallbackListener{
		Listener: &listener{Listener: l, proxy: s.proxy, open: s.proxy.fallbackConnections}, proxy: s.proxy, peers: peers,
	}))
}

// FallbackPeers says which connections the fallback listener takes. The zero value
// takes connections without TLS, from any peer.
type FallbackPeers struct {
	// TLS, if not nil, is for connections with TLS, which are then taken, too. It has to
	// ask for certificates and verify them: a certificate that names namespaces is for
	// HTTPScaledObjects of these alone.
	TLS *tls.Config
	// MaxAge is the age from which a connection with TLS is closed after an answer, as its
	// certificate is checked only when it begins. A random time of up to a third of
	// MaxAge is added for each connection. 0 is for no limit.
	MaxAge time.Duration
	// RequireNamespaces closes connections without TLS, and those whose certificate
	// names no namespace.
	RequireNamespaces bool
}

// fallbackListener takes connections of kedify-proxies.
type fallbackListener struct {
	net.Listener
	proxy *Proxy
	peers FallbackPeers
	// When permits last logged that a connection is closed, with TLS and without, in
	// Unix seconds.
	told, toldPlain atomic.Int64
}

// Accept is part of net.Listener. It does not wait for the PROXY protocol header.
func (l *fallbackListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if l.peers.TLS != nil {
		c = &maybeTLSConn{Conn: c, config: l.peers.TLS}
	}
	return &lengthWatch{Conn: l.newConn(c)}, nil
}

// permits fails when a connection may not hand over requests for the object that its
// header names.
func (l *fallbackListener) permits(c net.Conn, h *proxyproto.Header) error {
	if h.Version != 2 {
		return fmt.Errorf("%w: it is of version %d", errNotFromEnvoy, h.Version)
	}
	names, over := namesOf(c)
	if names.All() || !over && !l.peers.RequireNamespaces {
		return nil
	}
	var err error
	object, told := handoverOf(h).object, &l.told
	switch {
	case !over:
		err, told = errors.New("the connection is without TLS, and --xds-require-namespaces asks for it"), &l.toldPlain
	case !names.Any() && l.peers.RequireNamespaces:
		err = fmt.Errorf("the certificate names no namespace, and --xds-require-namespaces asks for it; expected %s", certified.Expected)
	case !names.Any():
	case object == nil:
		err = fmt.Errorf("the connection names no HTTPScaledObject, and the certificate is for %s alone", names)
	case !names.Has(object.Namespace):
		err = fmt.Errorf("the connection names HTTPScaledObject %s, and the certificate is for %s alone", object, names)
	}
	// Once a second at most: a client may connect again at once.
	if now := time.Now().Unix(); err != nil && told.Swap(now) != now {
		l.proxy.log.Warn("closed a kedify-proxy's connection to the fallback port", "peer", c.RemoteAddr(), "error", err)
	}
	return err
}

// refused counts and logs a connection whose header is missing or not permitted.
func (l *fallbackListener) refused(peer net.Addr, err error) {
	l.proxy.metrics.fallbackRefused.Inc()
	l.proxy.log.Debug("a connection to the fallback listener is closed", "peer", peer, "error", err)
}

// fallbackConn is a connection of a kedify-proxy. Its header is read with the
// first byte, and is at most 4 KiB.
type fallbackConn struct {
	*proxyproto.Conn
	check   sync.Once
	maxAge  time.Duration // with TLS
	refused func(net.Addr, error)
}

func (l *fallbackListener) newConn(c net.Conn) *fallbackConn {
	return &fallbackConn{refused: l.refused, maxAge: l.peers.MaxAge, Conn: proxyproto.NewConn(c,
		proxyproto.WithPolicy(proxyproto.REQUIRE),
		proxyproto.SetReadHeaderTimeout(l.proxy.settings.ReadHeader),
		proxyproto.ValidateHeader(func(h *proxyproto.Header) error { return l.permits(c, h) }),
	)}
}

// Read is part of net.Conn.
func (c *fallbackConn) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	c.check.Do(func() {
		if n == 0 && err != nil && c.ProxyHeader() == nil {
			c.refused(c.Raw().RemoteAddr(), errors.Join(errNotFromEnvoy, err))
		}
	})
	return n, err
}

// CloseWrite lets a tunnel half-close the connection.
func (c *fallbackConn) CloseWrite() error {
	return closeWrite(c.Raw())
}
