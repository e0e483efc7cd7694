package proxy

import (
	"log/slog"
	"net"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// connections bounds those that a kind of listeners has open: each takes memory and a
// file, whether it carries a request or not.
type connections struct {
	port    string // "proxy" or "fallback"
	most    int64
	open    atomic.Int64
	memory  *memory
	full    atomic.Bool      // and the log says so
	now     prometheus.Gauge // open, for people
	refused prometheus.Counter
	log     *slog.Logger
}

func (p *Proxy) newConnections(port string) *connections {
	return &connections{
		port: port, most: int64(p.settings.MaxConnections), log: p.log, memory: &p.memory,
		now: p.metrics.connections.WithLabelValues(port), refused: p.metrics.connectionsRefused.WithLabelValues(port),
	}
}

// admit returns what counts as open until it is closed; nil, with the connection
// closed, when there are as many as there may be, or there is no memory for one.
func (c *connections) admit(conn net.Conn) net.Conn {
	if c.memory.over.Load() { // the log says that it is short
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
	// Some are to be free before the next time that the log says that none are.
	if c.open.Add(-1) <= c.most/10*9 {
		c.full.Store(false)
	}
}

// admitted is a connection that counts.
type admitted struct {
	net.Conn
	left func()
}

// Close is part of net.Conn.
func (c *admitted) Close() error {
	defer c.left()
	return c.Conn.Close()
}

// CloseWrite is what a tunnel ends one direction by.
func (c *admitted) CloseWrite() error { return closeWrite(c.Conn) }
