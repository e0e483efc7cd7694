package proxy

import (
	"crypto/tls"
	"net"
	"sync/atomic"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/certified"
)

// tlsRecord is the first byte of a TLS handshake. A PROXY protocol header begins
// with another.
const tlsRecord = 0x16

// maybeTLSConn is a connection of a kedify-proxy, with TLS or without: its first byte
// tells which. Reads must not be concurrent, and the first must precede any write.
type maybeTLSConn struct {
	net.Conn // as accepted
	config   *tls.Config
	begun    bool
	over     atomic.Pointer[tls.Conn] // nil without TLS
}

// Read is part of net.Conn.
func (c *maybeTLSConn) Read(into []byte) (int, error) {
	if !c.begun && len(into) > 0 {
		n, err := c.Conn.Read(into[:1])
		if n == 0 {
			return n, err
		}
		c.begun = true
		if into[0] != tlsRecord {
			return n, err
		}
		c.over.Store(tls.Server(&begunConn{Conn: c.Conn, first: []byte{tlsRecord}}, c.config))
	}
	if over := c.over.Load(); over != nil {
		return over.Read(into)
	}
	return c.Conn.Read(into)
}

// Write is part of net.Conn.
func (c *maybeTLSConn) Write(from []byte) (int, error) {
	if over := c.over.Load(); over != nil {
		return over.Write(from)
	}
	return c.Conn.Write(from)
}

// Close is part of net.Conn.
func (c *maybeTLSConn) Close() error {
	if over := c.over.Load(); over != nil {
		return over.Close()
	}
	return c.Conn.Close()
}

// CloseWrite half-closes the connection, for a tunnel.
func (c *maybeTLSConn) CloseWrite() error {
	if over := c.over.Load(); over != nil {
		return over.CloseWrite()
	}
	return closeWrite(c.Conn)
}

// namesOf returns the namespaces that the certificate of a connection's peer names,
// and whether there is TLS. The first read from the connection must be over.
func namesOf(c net.Conn) (names certified.Namespaces, over bool) {
	i, is := c.(*maybeTLSConn)
	if !is {
		return names, false
	}
	conn := i.over.Load()
	if conn == nil {
		return names, false
	}
	state := conn.ConnectionState()
	return certified.Of(&state), true
}

// begunConn is a connection whose first byte was read already: Read returns it again.
type begunConn struct {
	net.Conn
	first []byte
}

// Read is part of net.Conn.
func (c *begunConn) Read(into []byte) (int, error) {
	if len(c.first) > 0 && len(into) > 0 {
		n := copy(into, c.first)
		c.first = nil
		return n, nil
	}
	return c.Conn.Read(into)
}
