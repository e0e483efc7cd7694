package proxy

import (
	"errors"
	"io"
	"sync/atomic"
)

var (
	errBodyOver    = errors.New("the request is over, its body is not to be read any more")
	errBodyStarted = errors.New("the body of the request has been read from, it cannot be sent again")
)

// requestBody is the body of a request on its way to an application, in one try.
// The transport closes it whenever it gives up, and may read on after that in a
// goroutine of its own; the body of the client stays open for another try.
type requestBody struct {
	source  io.Reader
	started atomic.Bool
	closed  atomic.Bool
	// over tells that the client's body was read to its end, or that reading it failed.
	over atomic.Bool
	// broken tells that reading the client's body failed.
	broken atomic.Bool
	// sent is called once, when there is no more of the body; it may be nil.
	sent func()
}

// Read is part of io.ReadCloser.
func (b *requestBody) Read(into []byte) (int, error) {
	if b.closed.Load() {
		return 0, errBodyOver
	}
	b.started.Store(true)
	n, err := b.source.Read(into)
	if err != nil && !errors.Is(err, io.EOF) {
		b.broken.Store(true)
	}
	if err != nil {
		b.over.Store(true)
	}
	if err != nil && b.sent != nil {
		b.sent()
		b.sent = nil
	}
	return n, err
}

// Close is part of io.ReadCloser.
func (b *requestBody) Close() error {
	b.closed.Store(true)
	return nil
}
