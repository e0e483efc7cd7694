package proxy

import (
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/peerlimit"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/usage"
)

// unreadBytes is about how much the kernel keeps for a client that does not read. By itself
// it goes up to 4 MB (net.ipv4.tcp_wmem), which count as memory of the pod.
const unreadBytes = 128 << 10

// BoundedPort bounds the connections of a port that every pod reaches, as a
// peerlimit.Limit does.
type BoundedPort struct {
	port, flag string
	limit      *peerlimit.Limit
	now        prometheus.Gauge
	refused    prometheus.Counter
	log        *slog.Logger

	mu     sync.Mutex
	logged time.Time
}

// BoundPort returns a BoundedPort with so many connections at most, and so many of one
// IP address; for a further one, another is closed. The flags of the bounds are flag and
// flag-per-address. The metrics and Limits of the Proxy have them, by the name of the
// port.
func (p *Proxy) BoundPort(port, flag string, most, perAddress int) *BoundedPort {
	b := &BoundedPort{
		port: port, flag: flag, limit: peerlimit.New(most, perAddress), log: p.log,
		now: p.metrics.connections.WithLabelValues(port), refused: p.metrics.connectionsRefused.WithLabelValues(port),
	}
	p.boundedMu.Lock()
	defer p.boundedMu.Unlock()
	p.bounded = append(p.bounded, b)
	return b
}

// Listener returns a Listener of the port.
func (b *BoundedPort) Listener(l net.Listener) net.Listener { return &boundedListener{l, b} }

// displace closes a connection for a new one.
func (b *BoundedPort) displace(conn net.Conn) {
	b.now.Dec()
	b.refused.Inc()
	_ = conn.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.logged) > time.Minute {
		b.logged = time.Now()
		b.log.Warn("connections are closed for new ones: there are as many as --"+b.flag+" and --"+b.flag+"-per-address allow", "port", b.port, "address", peerlimit.Address(conn.RemoteAddr()))
	}
}

func (b *BoundedPort) limits() []usage.Limit { return b.limit.Usage(b.flag, b.flag+"-per-address") }

type boundedListener struct {
	net.Listener
	port *BoundedPort
}

// Accept is part of net.Listener.
func (l *boundedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(unreadBytes)
	}
	l.port.now.Inc()
	return &boundedConn{conn, l.port, l.port.limit.Take(conn.RemoteAddr(), func() { l.port.displace(conn) })}, nil
}

// boundedConn is a connection of a BoundedPort.
type boundedConn struct {
	net.Conn
	port  *BoundedPort
	place *peerlimit.Place
}

// Close is part of net.Conn.
func (c *boundedConn) Close() error {
	if c.place.Release() {
		c.port.now.Dec()
	}
	return c.Conn.Close()
}
