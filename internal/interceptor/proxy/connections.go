package proxy

import (
	"log/slog"
	"net"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// connections bounds the open connections of one kind of listener: each takes memory
// and a file descriptor, whether it carries a request or not.
type connections struct {
	port    string // "proxy" or "fallback"
	most    int64
	open    atomic.Int64
	memory  *memory
	full    atomic.Bool      // the bound was reached, and logged
	now     prometheus.Gauge // open, as a metric
	refused prometheus.Counter
	log     *slog.Logger
}

func (p *Proxy) newConnections(port string) *connections {
	return &connections{
		port: port, most: int64(p.settings.MaxConnections), log: p.log, memory: &p.memory,
		now: p.metrics.connections.WithLabelValues(port), refused: p.metrics.connectionsRefused.WithLabelValues(port),
	}
}

// admit returns a connection that counts as open until it is closed. If the bound is
// reached, or there is no memory for one more, it closes conn and returns nil.
func (c *connections) admit(conn net.Conn) net.Conn {
	if c.memory.over.Load() { // the log says that memory is short
		c.refused.Inc()
		_ = conn.Close()
		return nil
	}
	if c.open.Add(1) > c.most {
		c.open.Add(-1)
		c.refused.Inc()
		_ = conn.Close()
		if !c.full.Swap(true) {
			c.log.Warn("new connections are closed: there are as many as --max-connections allows", "port", c.port, "connections", c.most)
		}
		return nil
	}
	c.now.Inc()
	return &admitted{Conn: conn, left: sync.OnceFunc(c.leave)}
}

func (c *connections) leave() {
	c.now.Dec()
	// A tenth has to be free before the log says again that none are.
	if c.open.Add(-1) <= c.most/10*9 {
		c.full.Store(false)
	}
}

// admitted is a connection that counts as open.
type admitted struct {
	net.Conn
	left func()
}

// Close is part of net.Conn.
func (c *admitted) Close() error {
	defer c.left()
	return c.Conn.Close()
}

// CloseWrite lets a tunnel half-close the connection.
func (c *admitted) CloseWrite() error { return closeWrite(c.Conn) }
