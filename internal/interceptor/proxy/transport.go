package proxy

import (
	"net"
	"net/http"
	"syscall"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// Windows of HTTP/2 connections to applications, in bytes: how much an application may
// send before the client takes it.
const (
	// upstreamStreamWindow is that of one answer. Answers that no client reads fill it.
	upstreamStreamWindow = 64 << 10
	// upstreamWindow is that of a connection. It has room for 16,384 answers, so that
	// some that are not read stop no other.
	upstreamWindow = 1 << 30
)

// transports connect to applications, one per protocol. fresh makes a new connection for
// each request: a request that is sent again must not meet another idle connection that
// turns out to be closed.
type transports struct{ http1, fresh, h2c *http.Transport }

func newTransports(s *Settings) transports {
	dialer := &net.Dialer{
		Timeout:         s.ConnectTimeout,
		KeepAliveConfig: s.probes(),
		Control: func(_, _ string, c syscall.RawConn) error {
			setUserTimeout(c, s.UserTimeout)
			return nil
		},
	}
	build := func() *http.Transport {
		return &http.Transport{
			DialContext:            dialer.DialContext,
			DisableCompression:     true, // what the client asked for is what it gets
			MaxIdleConns:           s.MaxIdleConns,
			MaxIdleConnsPerHost:    s.MaxIdleConnsPerEndpoint,
			IdleConnTimeout:        s.IdleConnTimeout,
			ExpectContinueTimeout:  s.ExpectContinue,
			MaxResponseHeaderBytes: int64(s.MaxHeaderBytes),
			Protocols:              new(http.Protocols),
		}
	}
	t := transports{http1: build(), fresh: build(), h2c: build()}
	t.http1.Protocols.SetHTTP1(true)
	t.fresh.Protocols.SetHTTP1(true)
	t.fresh.DisableKeepAlives = true
	t.h2c.Protocols.SetUnencryptedHTTP2(true)
	// An HTTP/2 connection carries many requests: pings find a dead one before
	// the kernel gives it up.
	t.h2c.HTTP2 = &http.HTTP2Config{
		MaxReceiveBufferPerStream:     upstreamStreamWindow,
		MaxReceiveBufferPerConnection: upstreamWindow,
		SendPingTimeout:               s.KeepAlive,
		PingTimeout:                   pingTimeout,
	}
	return t
}

// of returns the transport for a protocol. In HTTP/2 fresh makes no difference: a
// connection that is closed fails its other requests, too, and is not used again.
func (t *transports) of(protocol routes.Protocol, fresh bool) *http.Transport {
	switch {
	case protocol == routes.H2C:
		return t.h2c
	case fresh:
		return t.fresh
	}
	return t.http1
}

// closeIdle closes the idle connections.
func (t *transports) closeIdle() {
	t.http1.CloseIdleConnections()
	t.h2c.CloseIdleConnections()
}
