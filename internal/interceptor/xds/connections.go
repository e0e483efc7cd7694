package xds

import (
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/peerlimit"
)

// maxUnhandledBytes bounds what the clients of one address have sent and the server has not
// handled yet, over all of their streams.
const maxUnhandledBytes = 2 * maxRequestBytes

// openConnections are the open connections, by the address and port of the client. To end a
// stream whose Envoy does not read, its connection has to be closed: what is queued for it
// would stay until it is read.
type openConnections struct {
	log *slog.Logger

	mu     sync.Mutex
	open   map[string]*trackedConn
	warned time.Time
}

func (c *openConnections) listener(l net.Listener) net.Listener { return &trackedListener{l, c} }

// displaced closes the connection of a stream whose place another stream takes.
func (s *Server) displaced(client net.Addr) {
	c := &s.connections
	c.close(client.String())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.warn("connections of Envoys are closed for new streams: there are as many as --xds-max-streams, and --xds-max-concurrent-streams for one address, allow", peerlimit.Address(client))
}

// close closes the connection of a client, if it is open. peer is its address and port.
func (c *openConnections) close(peer string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn := c.open[peer]; conn != nil {
		_ = conn.Conn.Close()
	}
}

// warn logs why connections of an address are closed, once a minute at most. It is called
// with mu held.
func (c *openConnections) warn(message, address string) {
	if time.Since(c.warned) > time.Minute {
		c.warned = time.Now()
		c.log.Warn(message, "address", address)
	}
}

// received counts what a client has sent. If its address has more than maxUnhandledBytes then,
// the connection that has most of it is closed.
func (c *openConnections) received(from *trackedConn, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if from.unhandled += n; from.unhandled < maxUnhandledBytes/1000 {
		return // it makes no difference
	}
	sum, largest := 0, from
	for _, conn := range c.open {
		if conn.address != from.address {
			continue
		}
		if sum += conn.unhandled; conn.unhandled > largest.unhandled {
			largest = conn
		}
	}
	if sum > maxUnhandledBytes {
		_ = largest.Conn.Close()
		c.warn("a connection of an Envoy is closed: the Envoys of its address have sent more than the interceptor handles at a time", from.address)
	}
}

// handled takes a request of so many bytes off what a client has sent. peer is the client's
// address and port.
func (c *openConnections) handled(peer string, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn := c.open[peer]; conn != nil {
		// HTTP/2 and TLS add less than a sixteenth to a large request, and their own
		// frames to a small one.
		conn.unhandled = max(0, conn.unhandled-bytes-bytes/16-128)
	}
}

type trackedListener struct {
	net.Listener
	connections *openConnections
}

// Accept is part of net.Listener.
func (l *trackedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	tracked := &trackedConn{Conn: conn, of: l.connections, address: peerlimit.Address(conn.RemoteAddr())}
	l.connections.mu.Lock()
	defer l.connections.mu.Unlock()
	l.connections.open[conn.RemoteAddr().String()] = tracked
	return tracked, nil
}

type trackedConn struct {
	net.Conn
	of      *openConnections
	address string // without the port
	// unhandled is about how many bytes were received and not handled. Guarded by of.mu.
	unhandled int
}

// Read is part of net.Conn.
func (c *trackedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.of.received(c, n)
	return n, err
}

// Close is part of net.Conn.
func (c *trackedConn) Close() error {
	address := c.RemoteAddr().String()
	c.of.mu.Lock()
	if c.of.open[address] == c {
		delete(c.of.open, address)
	}
	c.of.mu.Unlock()
	return c.Conn.Close()
}
