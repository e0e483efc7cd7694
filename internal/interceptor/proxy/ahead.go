package proxy

import (
	"io"
	"net/http"
	"sync"
)

// Go's server notices that a client of HTTP/1.1 hangs up only once the body of its
// request is read to the end. So that nobody's order is carried out after the one
// who made it has left, a body is read while its request is held: one that says
// its length, which is at most largestReadAhead. The end of a longer one is too
// far, and where it is, in chunks, nobody knows; they stay where they are, and a
// client that leaves is not noticed before they are sent on. Nor is one whose body
// would take up more than half of the waiting room.
//
// In HTTP/2 there is no such trouble. There a body comes whether it is read or not,
// and the beginning of it is read to know how much of it is here.
//
// Expect: 100-continue leaves the body to the client, too, until the application
// has been asked: to read it is to say that it is wanted. Of HTTP/2, Go's server
// does not show it. Trailers that are announced arrive with the end of a body, in a
// map that the transport looks at: it has to be the one to read that.

const (
	// largestReadAhead is the longest body of HTTP/1.1 that is read while its
	// request is held, in bytes.
	largestReadAhead = 64 << 10
	// mostReadAhead is how much is read of one in HTTP/2.
	mostReadAhead = 16 << 10
	// firstReadAhead is the space that a body is given before it is here.
	firstReadAhead = 512
)

// readableAhead tells whether the body of a request is to be read while it is held.
func readableAhead(r *http.Request) bool {
	if r.ProtoMajor == 1 {
		return r.ContentLength > 0 && r.ContentLength <= largestReadAhead && r.Header["Expect"] == nil
	}
	return r.ContentLength != 0 && len(r.Trailer) == 0
}

// bodyAhead is a body that is read as it arrives, whether somebody wants it yet or
// not, for as long as its request is held.
type bodyAhead struct {
	from  io.Reader
	http2 bool
	most  int   // of it to be read ahead
	rest  int64 // what the window may have of it after that

	mu      sync.Mutex
	changed sync.Cond
	at      *place // where its request waits; nil when it does not
	chunkAt *place // that has been charged the server's chunk
	reading bool   // ahead
	data    []byte // what was
	used    int    // how much of that was read from here
	err     error  // io.EOF when all is here
}

// readAhead begins to read the body, if that is to be done, until it is stopped.
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
		b.most = int(min(int64(b.most), length+1)) // with space to see its end
	}
	return b
}

func (b *bodyAhead) begin(at *place) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at = at
	if b.reading { // since an earlier wait
		b.chargeChunk()
	} else {
		b.reading = true
		// It ends with the wait, or with the body or the request: the server lets
		// nobody wait for a body after that.
		go b.fill()
	}
}

// stop has no more be read than what is being waited for.
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
		b.at.grow(-chunkHTTP2, false) // the server keeps none after the end
	}
	b.reading = false
	b.changed.Broadcast()
}

// chargeChunk charges the chunk that the server of HTTP/2 keeps for a body from its
// first byte on. It tells whether there is room for it.
func (b *bodyAhead) chargeChunk() bool {
	if !b.http2 || len(b.data) == 0 || b.at == nil || b.at == b.chunkAt {
		return true
	}
	b.chunkAt = b.at
	return b.at.grow(chunkHTTP2, false)
}

// hasSpace makes space for more, where that is to be read and there is room for it.
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

// kept returns how many bytes are kept for what was read ahead.
func (b *bodyAhead) kept() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return int64(cap(b.data))
}

// complete tells whether all is here.
func (b *bodyAhead) complete() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err == io.EOF //nolint:errorlint // as the server has it
}

// Read is part of io.ReadCloser. It waits for something to arrive.
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
