package proxy

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"sync/atomic"
)

// Go's server takes a request with both Transfer-Encoding: chunked and
// Content-Length by the first, as RFC 9112 (6.1) asks, and forgets the second.
// The RFC also asks that the connection be closed after the answer: somebody on
// the way may have gone by the second, and what follows is then not the request
// that it seems to be. lengthWatch sees what the server does not tell.

// lengthWatch is a client's connection that notes whether a Content-Length was
// sent.
type lengthWatch struct {
	net.Conn
	seen atomic.Int32               // one of the constants below
	idle atomic.Bool                // a request is over, and nothing was read since
	tail [len(lengthField) - 1]byte // of what was read, for a name cut in two
	fill int
	off  bool // HTTP/2 has frames, and no such doubt
	any  bool // something was read
}

// When a Content-Length was seen: in what was read since a request was over, or
// before. What is read at once may be several requests and the beginning of
// another, which is as good as seen now. A client that sends chunks after a length,
// each in a request of its own, is taken for one that may have sent both: its
// connection is closed after the answer.
const (
	notSeen int32 = iota
	seenBefore
	seenNow
)

const lengthField = "\ncontent-length"

// largestHeaderRead is above what the server reads at once while it reads a
// header; larger reads are of bodies.
const largestHeaderRead = 8 << 10

// Read is part of net.Conn.
func (c *lengthWatch) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	if n > 0 && !c.off && len(into) <= largestHeaderRead {
		// A single byte is what the server reads while it answers, to see
		// whether the client is there still: it has not used up what it has.
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

// CloseWrite is what a tunnel ends one direction by.
func (c *lengthWatch) CloseWrite() error {
	return closeWrite(c.Conn)
}

type lengthWatchKey struct{}

// withLengthWatch makes the watch known to the requests on its connection.
func withLengthWatch(ctx context.Context, c net.Conn) context.Context {
	if watch, ok := c.(*lengthWatch); ok {
		return context.WithValue(ctx, lengthWatchKey{}, watch)
	}
	return ctx
}

// forgetLength has the watch forget in time what it saw, as http.Server.ConnState.
func forgetLength(c net.Conn, state http.ConnState) {
	if watch, ok := c.(*lengthWatch); ok && state == http.StateIdle && watch.seen.Load() != notSeen {
		watch.idle.Store(true)
	}
}

// ambiguousLength tells of a request that may have said its length in two ways.
// Where that cannot be known, as under TLS, it may.
func ambiguousLength(r *http.Request) bool {
	if r.ProtoMajor != 1 || len(r.TransferEncoding) == 0 {
		return false
	}
	watch, ok := r.Context().Value(lengthWatchKey{}).(*lengthWatch)
	return !ok || watch.seen.Load() != notSeen
}
