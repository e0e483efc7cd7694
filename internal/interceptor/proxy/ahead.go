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
// on. In HTTP/2 the server notices it without that.
//
// A body with Expect: 100-continue is not read either: reading it would tell the client
// to send it before the application was asked.

// largestReadAhead is the longest HTTP/1.1 body that is read while its request waits,
// in bytes.
const largestReadAhead = 64 << 10

// readableAhead tells whether the body of a request is to be read while it waits.
func readableAhead(r *http.Request) bool {
	return r.ProtoMajor == 1 && r.ContentLength > 0 && r.ContentLength <= largestReadAhead && r.Header["Expect"] == nil
}

// bodyAhead is a body that is read as it arrives, from when its request begins to wait.
type bodyAhead struct {
	mu      sync.Mutex
	changed sync.Cond
	data    []byte
	used    int   // bytes of data that Read has returned
	err     error // of reading ahead; io.EOF at the end of the body
}

// readAhead begins to read the body of a request, if it is readableAhead.
func readAhead(r *http.Request) {
	if _, begun := r.Body.(*bodyAhead); begun || !readableAhead(r) {
		return
	}
	b := new(bodyAhead)
	b.changed.L = &b.mu
	// It ends with the body or the request: once the request is over, the server lets
	// no read of its body block.
	go b.fill(r.Body, r.ContentLength)
	r.Body = b
}

func (b *bodyAhead) fill(from io.Reader, length int64) {
	buffer := make([]byte, length+1) // one more, to see the end
	for filled, n, err := 0, 0, error(nil); err == nil; {
		n, err = from.Read(buffer[filled:])
		filled += n
		b.mu.Lock()
		b.data, b.err = buffer[:filled], err
		b.changed.Broadcast()
		b.mu.Unlock()
	}
}

// complete tells whether the body was read ahead to its end.
func (b *bodyAhead) complete() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err == io.EOF //nolint:errorlint // as the server has it
}

// Read is part of io.ReadCloser. It waits for bytes that have not arrived.
func (b *bodyAhead) Read(into []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.used == len(b.data) && b.err == nil {
		b.changed.Wait()
	}
	n := copy(into, b.data[b.used:])
	b.used += n
	if b.used == len(b.data) {
		return n, b.err
	}
	return n, nil
}

// Close is part of io.ReadCloser.
func (b *bodyAhead) Close() error { return nil }
