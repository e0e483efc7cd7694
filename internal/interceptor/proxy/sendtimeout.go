package proxy

import (
	"net/http"
	"sync"
	"time"
)

// sending ends the answer to an HTTP/2 client that takes none of it. The client may
// read its connection and yet leave the stream's flow-control window closed, which the
// kernel does not see; in HTTP/1.1 the TCP user timeout of the connection is enough. A
// write deadline alone would not do: at the deadline, Go ends a stream even if nothing
// waits to be sent.
type sending struct {
	mu    sync.Mutex
	timer *time.Timer // nil before the first write, and once the answer is over
	began time.Time   // start of the write under way; zero while there is none
}

// writes notes that a write begins, which the client has to take within the timeout.
func (x *exchange) writes() {
	timeout := x.proxy.settings.SendTimeout
	if x.in.ProtoMajor < 2 || timeout == 0 {
		return
	}
	s := &x.sending
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began = time.Now()
	if s.timer == nil {
		s.timer = time.AfterFunc(timeout, x.checkSending)
	}
}

// wrote notes that the client has taken what was written.
func (x *exchange) wrote() {
	if x.in.ProtoMajor < 2 {
		return
	}
	x.sending.mu.Lock()
	defer x.sending.mu.Unlock()
	x.sending.began = time.Time{}
}

// checkSending ends the answer if a write has taken too long, and otherwise checks
// again when that is next possible.
func (x *exchange) checkSending() {
	timeout := x.proxy.settings.SendTimeout
	s := &x.sending
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer == nil {
		return // the answer is over
	}
	left := timeout
	if !s.began.IsZero() {
		left -= time.Since(s.began)
	}
	if left > 0 {
		s.timer.Reset(left)
		return
	}
	// A deadline that has passed ends the write at once.
	_ = http.NewResponseController(x.w).SetWriteDeadline(s.began)
}

// stopSending must be called when nothing more is written: the server may reuse the
// memory of the writer for another request.
func (x *exchange) stopSending() {
	if x.in.ProtoMajor < 2 {
		return
	}
	s := &x.sending
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
}

// ends notes that the next write is the last one: the client has the timeout to take
// all of it, also if the server writes it only after the handler has returned.
func (x *exchange) ends() {
	timeout := x.proxy.settings.SendTimeout
	if x.in.ProtoMajor < 2 || timeout == 0 {
		return
	}
	// A writer that does not support deadlines goes without.
	_ = http.NewResponseController(x.w).SetWriteDeadline(time.Now().Add(timeout))
}
