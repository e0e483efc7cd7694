package proxy

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"sync/atomic"
)

// If a request has both Transfer-Encoding: chunked and Content-Length, Go's server
// follows the first, as RFC 9112 (6.1) asks, and drops the second. The RFC also asks
// that the connection be closed after the answer: an intermediary may have followed the
// Content-Length, and what looks like the next request may be part of this one's body.
// Go's server does not report the dropped header, so lengthWatch looks for it.

// lengthWatch is a client's connection that notes whether a Content-Length was
// sent.
type lengthWatch struct {
	net.Conn
	seen atomic.Int32               // one of the constants below
	idle atomic.Bool                // a request has ended, and nothing was read since
	tail [len(lengthField) - 1]byte // of the bytes read, for a name split over two reads
	fill int
	off  bool // for HTTP/2: its frames leave no doubt about a body's end
	any  bool // something was read
}

// When a Content-Length was seen: since the last request ended (seenNow), or before
// (seenBefore). seenBefore counts, too, as one read may return several requests and the
// beginning of another. A client that sends a request with a Content-Length and then a
// chunked one on the same connection is treated as if one request had both: its
// connection is closed after the answer.
const (
	notSeen int32 = iota
	seenBefore
	seenNow
)

const lengthField = "\ncontent-length"

// largestHeaderRead is more than the server asks for in one read of a header; larger
// reads are of bodies.
const largestHeaderRead = 8 << 10

// Read is part of net.Conn.
func (c *lengthWatch) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	if n > 0 && !c.off && len(into) <= largestHeaderRead {
		// While it answers, the server reads a single byte to notice when the
		// client leaves: its buffer may still hold what was read before.
		if len(into) > 1 && c.idle.Load() {
			c.idle.Store(false)
			c.seen.Add(-1)
		}
		c.watch(into[:n])
	}
	return n, err
}

func (c *lengthWatch) watch(data []byte) {
	if !c.any {
		c.any = true
		if bytes.HasPrefix(data, []byte("PRI * HTTP/2")) {
			c.off = true
			return
		}
	}
	if c.seen.Load() == seenNow {
		return
	}
	var seam [2 * len(c.tail)]byte
	before := copy(seam[:], c.tail[:c.fill])
	after := copy(seam[before:], data[:min(len(data), len(c.tail))])
	if hasLengthField(seam[:before+after]) || hasLengthField(data) {
		c.seen.Store(seenNow)
	}
	if len(data) >= len(c.tail) {
		c.fill = copy(c.tail[:], data[len(data)-len(c.tail):])
		return
	}
	keep := min(c.fill, len(c.tail)-len(data))
	copy(c.tail[:], c.tail[c.fill-keep:c.fill])
	c.fill = keep + copy(c.tail[keep:], data)
}

func hasLengthField(data []byte) bool {
	for {
		i := bytes.IndexByte(data, '\n')
		if i < 0 || len(data)-i < len(lengthField) {
			return false
		}
		if bytes.EqualFold(data[i:i+len(lengthField)], []byte(lengthField)) {
			return true
		}
		data = data[i+1:]
	}
}

// CloseWrite half-closes the connection, for a tunnel.
func (c *lengthWatch) CloseWrite() error {
	return closeWrite(c.Conn)
}

type lengthWatchKey struct{}

// withLengthWatch is an http.Server.ConnContext: it makes the watch known to the requests
// on its connection.
func withLengthWatch(ctx context.Context, c net.Conn) context.Context {
	if watch, ok := c.(*lengthWatch); ok {
		return context.WithValue(ctx, lengthWatchKey{}, watch)
	}
	return ctx
}

// forgetLength is an http.Server.ConnState function: it notes that a request has ended,
// so that the watch forgets, in time, the Content-Length that it saw.
func forgetLength(c net.Conn, state http.ConnState) {
	if watch, ok := c.(*lengthWatch); ok && state == http.StateIdle && watch.seen.Load() != notSeen {
		watch.idle.Store(true)
	}
}

// ambiguousLength tells whether a chunked request may have had a Content-Length, too.
// If that cannot be known, as with TLS, it is assumed.
func ambiguousLength(r *http.Request) bool {
	if r.ProtoMajor != 1 || len(r.TransferEncoding) == 0 {
		return false
	}
	watch, ok := r.Context().Value(lengthWatchKey{}).(*lengthWatch)
	return !ok || watch.seen.Load() != notSeen
}
