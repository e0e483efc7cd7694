package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"math"
	"net"
	"net/http"
)

// streamWindow is the flow-control window of an HTTP/2 stream: how much of a body a
// client may send before it is read, in bytes. A request that waits is charged it. It is
// no smaller than what a client may send before it has read the server's settings.
const streamWindow = 64 << 10

// Server serves a Proxy on listeners, in HTTP/1.1 and HTTP/2: the client's first bytes
// tell which, or ALPN with TLS.
type Server struct {
	proxy                *Proxy
	plain, tls, fallback *http.Server
}

// NewServer makes a Server. Nothing is served until Serve, ServeTLS or
// ServeFallback.
func NewServer(p *Proxy) *Server {
	serve := func() *http.Server {
		return &http.Server{
			Handler:           p,
			MaxHeaderBytes:    p.settings.MaxHeaderBytes,
			ReadHeaderTimeout: p.settings.ReadHeader,
			IdleTimeout:       p.settings.Idle,
			// Otherwise Go's server answers OPTIONS *, which no route is for.
			DisableGeneralOptionsHandler: true,
			Protocols:                    new(http.Protocols),
			HTTP2: &http.HTTP2Config{
				MaxConcurrentStreams:      p.settings.MaxStreams,
				MaxReceiveBufferPerStream: streamWindow,
				// With room for all streams, some that are not read stop no other.
				MaxReceiveBufferPerConnection: min(p.settings.MaxStreams, math.MaxInt32/streamWindow) * streamWindow,
				SendPingTimeout:               p.settings.KeepAlive,
				PingTimeout:                   pingTimeout,
			},
			ConnContext: withLengthWatch,
			ConnState:   forgetLength,
			ErrorLog:    log.New(serverLog{p.log}, "", 0),
		}
	}
	s := &Server{proxy: p, plain: serve(), tls: serve(), fallback: serve()}
	for _, server := range []*http.Server{s.plain, s.tls, s.fallback} {
		p.memory.keepIdle = append(p.memory.keepIdle, server.SetKeepAlivesEnabled)
	}
	s.plain.Protocols.SetHTTP1(true)
	s.plain.Protocols.SetUnencryptedHTTP2(true)
	s.fallback.ConnContext = withHandover
	s.fallback.Protocols.SetHTTP1(true)
	s.fallback.Protocols.SetUnencryptedHTTP2(true)
	s.tls.Protocols.SetHTTP1(true)
	s.tls.Protocols.SetHTTP2(true)
	return s
}

// Serve serves without TLS. It returns nil once Shutdown is called, and otherwise the
// error of the listener.
func (s *Server) Serve(l net.Listener) error {
	return ended(l, s.plain.Serve(&listener{Listener: l, proxy: s.proxy, open: s.proxy.clients, watch: true}))
}

// ServeTLS serves with TLS, as Serve does without.
func (s *Server) ServeTLS(l net.Listener, certificate *Certificate) error {
	s.tls.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificate.Get}
	return ended(l, s.tls.ServeTLS(&listener{Listener: l, proxy: s.proxy, open: s.proxy.clients}, "", ""))
}

func ended(l net.Listener, err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serving on %s: %w", l.Addr(), err)
}

// Shutdown is a graceful shutdown: it accepts no more connections, has clients close
// theirs after the answers under way, and waits for these answers and for upgraded
// connections to end. Requests that wait for an endpoint are sent on if one comes, or
// answered without one shortly before the deadline of ctx. When ctx ends, Shutdown cuts
// what is left and returns the error of ctx.
func (s *Server) Shutdown(ctx context.Context) error {
	s.proxy.Drain()
	defer s.proxy.waiting.closeBefore(ctx)()
	results := make(chan error, 3)
	for _, server := range []*http.Server{s.plain, s.tls, s.fallback} {
		go func() {
			err := server.Shutdown(ctx)
			if err != nil {
				s.proxy.cutting.Store(true)
				_ = server.Close()
			}
			results <- err
		}()
	}
	err := errors.Join(<-results, <-results, <-results)
	err = errors.Join(err, s.proxy.tunnels.drain(ctx))
	s.proxy.transports.closeIdle()
	if err != nil {
		return fmt.Errorf("requests were cut: %w", err)
	}
	return nil
}

// listener prepares the connections of clients.
type listener struct {
	net.Listener
	proxy *Proxy
	open  *connections
	watch bool
}

// Accept is part of net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	l.proxy.start.block()
	c, accepted, err := l.admit()
	if err != nil {
		return nil, err
	}
	if tcp, ok := accepted.(*net.TCPConn); ok {
		// If this fails, the connection keeps the defaults.
		_ = tcp.SetKeepAliveConfig(l.proxy.settings.probes())
		if raw, err := tcp.SyscallConn(); err == nil {
			setUserTimeout(raw, l.proxy.settings.SendTimeout)
		}
	}
	if l.watch {
		c = &lengthWatch{Conn: c}
	}
	return c, nil
}

// admit returns the next connection that there is room for, and the accepted connection
// that it wraps.
func (l *listener) admit() (c, accepted net.Conn, err error) {
	for c == nil {
		if accepted, err = l.Listener.Accept(); err != nil {
			return nil, nil, err
		}
		c = l.open.admit(accepted)
	}
	return c, accepted, nil
}
