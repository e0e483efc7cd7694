package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/pires/go-proxyproto"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

var errNotFromEnvoy = errors.New("the connection does not begin with a PROXY protocol v2 header, as those of a kedify-proxy do")

// ServeFallback serves connections of kedify-proxies whose backend has no
// endpoint, as Serve does those of clients. Each begins with a PROXY protocol v2
// header, or is closed. When that names an HTTPScaledObject that there is, all its
// requests belong to that, whatever their host, path and headers are. X-Forwarded-*
// are left as they come: Envoy has added the client already.
func (s *Server) ServeFallback(l net.Listener) error {
	return ended(l, s.fallback.Serve(&fallbackListener{
		Listener: &listener{Listener: l, proxy: s.proxy, open: s.proxy.handOvers}, proxy: s.proxy,
	}))
}

// fallbackListener takes connections of kedify-proxies.
type fallbackListener struct {
	net.Listener
	proxy *Proxy
}

// Accept is part of net.Listener. It does not wait for the header.
func (l *fallbackListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &lengthWatch{Conn: newFallbackConn(c, l.proxy.settings.ReadHeader, l.refused)}, nil
}

// refused is told of a connection that is not what it should be.
func (l *fallbackListener) refused(peer net.Addr, err error) {
	l.proxy.metrics.fallbackRefused.Inc()
	l.proxy.log.Debug("a connection to the fallback listener is closed", "peer", peer, "error", err)
}

// fallbackConn is a connection of a kedify-proxy. Its header is read with the
// first byte, and is at most 4 KiB.
type fallbackConn struct {
	*proxyproto.Conn
	check   sync.Once
	refused func(net.Addr, error)
}

func newFallbackConn(c net.Conn, timeout time.Duration, refused func(net.Addr, error)) *fallbackConn {
	return &fallbackConn{refused: refused, Conn: proxyproto.NewConn(c,
		proxyproto.WithPolicy(proxyproto.REQUIRE),
		proxyproto.SetReadHeaderTimeout(timeout),
		proxyproto.ValidateHeader(func(h *proxyproto.Header) error {
			if h.Version != 2 {
				return fmt.Errorf("%w: it is of version %d", errNotFromEnvoy, h.Version)
			}
			return nil
		}),
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

// CloseWrite is what a tunnel ends one direction by.
func (c *fallbackConn) CloseWrite() error {
	return closeWrite(c.Raw())
}

// handedOver is what the header of a connection says of its requests.
type handedOver struct {
	object  *types.NamespacedName // nil for none
	service string                // whose turn it was, "" where that is not said
}

func (c *fallbackConn) handedOver() (h handedOver) {
	header := c.ProxyHeader()
	if header == nil {
		return h
	}
	records, err := header.TLVs()
	if err != nil {
		return h
	}
	for _, record := range records {
		switch record.Type {
		case routes.FallbackTLV:
			if name, ok := parseObject(string(record.Value)); ok && h.object == nil {
				h.object = &name
			}
		case routes.FallbackServiceTLV:
			h.service = string(record.Value)
		}
	}
	return h
}

type fallbackKey struct{}

// withFallback makes the connection known to the requests on it, as
// http.Server.ConnContext.
func withFallback(ctx context.Context, c net.Conn) context.Context {
	ctx = connContext(ctx, c)
	if watch, ok := c.(*lengthWatch); ok {
		if from, ok := watch.Conn.(*fallbackConn); ok {
			ctx = context.WithValue(ctx, fallbackKey{}, sync.OnceValue(from.handedOver))
		}
	}
	return ctx
}

// serveFallback is the http.Handler of the fallback listener.
func (p *Proxy) serveFallback(w http.ResponseWriter, r *http.Request) {
	x := &exchange{proxy: p, w: w, in: r, begun: time.Now(), fallback: true}
	if handedOver, ok := r.Context().Value(fallbackKey{}).(func() handedOver); ok {
		from := handedOver()
		x.object = from.object
		if again := r.Header[routes.SecondTryHeader]; len(again) > 0 {
			x.secondTry, x.service, x.tooLate = true, from.service, again[0] == "true"
			delete(r.Header, routes.SecondTryHeader)
		}
	}
	p.serve(x)
}

// stillHere tells Envoy that a request waits, which ends its timeout for the
// response's header: the application is not at fault yet. Envoy keeps the message
// to itself.
func (x *exchange) stillHere() {
	if !x.fallback || !x.in.ProtoAtLeast(1, 1) {
		return
	}
	h := x.w.Header()
	connection := h["Connection"]
	delete(h, "Connection")
	x.w.WriteHeader(http.StatusProcessing)
	if connection != nil {
		h["Connection"] = connection
	}
}
