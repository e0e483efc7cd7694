package proxy

import (
	"io"
	"net/http"
	"sync"
)

// Go's server notices that an HTTP/1.1 client closes the connection only once the body
// of its request is read to the end. So a body with a Content-Length of at most
// largestReadAhead is read while its request waits: an order must not be carried out
// for a client that has left. A longer body is not read, nor a chunked one, whose
// length is unknown: if the client leaves, that is noticed only when the body is sent
// on. The same applies when reading would take the bytes of all waiting requests above
// half of the waiting room.
//
// In HTTP/2 the server notices it without that. There a body arrives whether it is read
// or not, and its beginning is read to know how much of it is in memory.
//
// A body with Expect: 100-continue is not read either: reading it would tell the client
// to send it before the application was asked. In HTTP/2, Go's server hides that header
// from handlers. Announced trailers arrive with the end of a body, in a map that the
// transport looks at: the transport has to read such a body itself.

const (
	// largestReadAhead is the longest HTTP/1.1 body that is read while its request
	// waits, in bytes.
	largestReadAhead = 64 << 10
	// mostReadAhead is how many bytes of an HTTP/2 body are read meanwhile.
	mostReadAhead = 16 << 10
	// firstReadAhead is the size of the first buffer for a body, in bytes.
	firstReadAhead = 512
)

// readableAhead tells whether the body of a request is to be read while it waits.
func readableAhead(r *http.Request) bool {
	if r.ProtoMajor == 1 {
		return r.ContentLength > 0 && r.ContentLength <= largestReadAhead && r.Header["Expect"] == nil
	}
	return r.ContentLength != 0 && len(r.Trailer) == 0
}

// bodyAhead is a body that is read as it arrives while its request waits.
type bodyAhead struct {
	from  io.Reader
	http2 bool
	most  int   // bytes of it to read ahead
	rest  int64 // bytes of it that fit into the flow-control window beyond that

	mu      sync.Mutex
	changed sync.Cond
	at      *place // where its request waits; nil when it does not
	chunkAt *place // the latest place that was charged the server's chunk
	reading bool   // fill runs
	data    []byte // what was read ahead
	used    int    // bytes of data that Read has returned
	err     error  // of reading ahead; io.EOF at the end of the body
}

// readAhead begins to read the body, if it is readableAhead, until stop is called.
func (x *exchange) readAhead(at *place) (stop func()) {
	if !readableAhead(x.in) {
		return func() {}
	}
	b, ok := x.in.Body.(*bodyAhead)
	if !ok {
		b = newBodyAhead(x.in)
		x.in.Body = b
	}
	b.begin(at)
	return b.stop
}

func newBodyAhead(r *http.Request) *bodyAhead {
	b := &bodyAhead{from: r.Body, http2: r.ProtoMajor >= 2, most: largestReadAhead + 1, rest: streamWindow}
	b.changed.L = &b.mu
	if b.http2 {
		b.most = mostReadAhead
	}
	if length := r.ContentLength; length >= 0 {
		b.rest = min(b.rest, max(0, length-int64(b.most)))
		b.most = int(min(int64(b.most), length+1)) // one more, to see its end
	}
	return b
}

func (b *bodyAhead) begin(at *place) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at = at
	if b.reading { // fill still runs since an earlier wait
		b.chargeChunk()
	} else {
		b.reading = true
		// It ends with the wait, or with the body or the request: once the request is
		// over, the server lets no read of its body block.
		go b.fill()
	}
}

// stop ends reading ahead, after the read under way.
func (b *bodyAhead) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at = nil
}

func (b *bodyAhead) fill() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.err == nil && b.chargeChunk() && b.hasSpace() {
		space := b.data[len(b.data):cap(b.data)]
		b.mu.Unlock()
		n, err := b.from.Read(space)
		b.mu.Lock()
		b.data, b.err = b.data[:len(b.data)+n], err
		b.changed.Broadcast()
	}
	if b.err != nil && b.at != nil && b.at == b.chunkAt {
		b.at.grow(-chunkHTTP2, false) // the server keeps no chunk after the end
	}
	b.reading = false
	b.changed.Broadcast()
}

// chargeChunk charges the place for the chunk of memory that Go's HTTP/2 server keeps
// for a body from its first byte on. It is false when there is no room for it.
func (b *bodyAhead) chargeChunk() bool {
	if !b.http2 || len(b.data) == 0 || b.at == nil || b.at == b.chunkAt {
		return true
	}
	b.chunkAt = b.at
	return b.at.grow(chunkHTTP2, false)
}

// hasSpace makes space for the next read. It is false when no more is to be read ahead,
// or the waiting room has no room for it.
func (b *bodyAhead) hasSpace() bool {
	switch {
	case b.at == nil:
		return false
	case len(b.data) < cap(b.data):
		return true
	case len(b.data) >= b.most:
		if b.http2 {
			b.at.mayFill(b.rest)
		}
		return false
	}
	size := min(b.most, max(firstReadAhead, 2*cap(b.data)))
	if !b.at.grow(int64(size-cap(b.data)), !b.http2) {
		return false
	}
	b.data = append(make([]byte, 0, size), b.data...)
	return true
}

// kept returns the size of the buffer for what was read ahead, in bytes.
func (b *bodyAhead) kept() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return int64(cap(b.data))
}

// complete tells whether the body was read ahead to its end.
func (b *bodyAhead) complete() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err == io.EOF //nolint:errorlint // as the server has it
}

// Read is part of io.ReadCloser. When data is used up while fill runs, it waits for
// more.
func (b *bodyAhead) Read(into []byte) (int, error) {
	b.mu.Lock()
	for b.used == len(b.data) && b.err == nil && b.reading {
		b.changed.Wait()
	}
	n := copy(into, b.data[b.used:])
	b.used += n
	over, err := b.used == len(b.data), b.err
	b.mu.Unlock()
	switch {
	case over && (n > 0 || err != nil):
		return n, err
	case n > 0 || len(into) == 0:
		return n, nil
	}
	return b.from.Read(into)
}

// Close is part of io.ReadCloser.
func (b *bodyAhead) Close() error { return nil }
