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
// client that leaves is not noticed before they are sent on. In HTTP/2 there is no
// such trouble.
//
// Expect: 100-continue leaves the body to the client, too, until the application
// has been asked: to read it is to say that it is wanted.

// largestReadAhead is the longest body that is read while its request is held, in
// bytes.
const largestReadAhead = 64 << 10

// readableAhead tells whether the body of a request is to be read while it is held.
func readableAhead(r *http.Request) bool {
	return r.ProtoMajor == 1 && r.ContentLength > 0 && r.ContentLength <= largestReadAhead && r.Header["Expect"] == nil
}

// bodyAhead is a body that is read as it arrives, whether somebody wants it yet or
// not.
type bodyAhead struct {
	mu      sync.Mutex
	arrived sync.Cond
	data    []byte // what is here; its capacity is for all
	at      int    // how much of it was read from here
	err     error  // io.EOF when all is here
}

// readAhead begins to read the body, if that is to be done and was not yet.
func (x *exchange) readAhead() {
	if _, begun := x.in.Body.(*bodyAhead); begun || !readableAhead(x.in) {
		return
	}
	b := &bodyAhead{data: make([]byte, 0, x.in.ContentLength)}
	b.arrived.L = &b.mu
	// It ends with the body or with the request: the server lets nobody wait for
	// a body after that.
	go b.fill(x.in.Body)
	x.in.Body = b
}

func (b *bodyAhead) fill(from io.Reader) {
	for space := b.data[:cap(b.data)]; ; {
		n, err := from.Read(space)
		space = space[n:]
		if err == nil && len(space) == 0 {
			err = io.EOF
		}
		b.mu.Lock()
		b.data, b.err = b.data[:len(b.data)+n], err
		b.mu.Unlock()
		b.arrived.Broadcast()
		if err != nil {
			return
		}
	}
}

// complete tells whether all is here.
func (b *bodyAhead) complete() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err == io.EOF //nolint:errorlint // as fill has it
}

// Read is part of io.ReadCloser. It waits for something to arrive.
func (b *bodyAhead) Read(into []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.at == len(b.data) && b.err == nil {
		b.arrived.Wait()
	}
	n := copy(into, b.data[b.at:])
	b.at += n
	if b.at == len(b.data) {
		return n, b.err
	}
	return n, nil
}

// Close is part of io.ReadCloser.
func (b *bodyAhead) Close() error { return nil }
