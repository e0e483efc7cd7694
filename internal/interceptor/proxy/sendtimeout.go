package proxy

import (
	"net/http"
	"sync"
	"time"
)

// sending gives up a client of HTTP/2 that takes none of what is written to it. It may
// read its connection and yet take nothing of an answer, of which the kernel knows
// nothing; in HTTP/1.1 the connection's user timeout is all. A write deadline alone
// would not do: Go ends a stream at it, also when nothing waits to be sent.
type sending struct {
	mu    sync.Mutex
	timer *time.Timer // nil before the first write, and once the answer is over
	began time.Time   // of the write under way; zero while there is none
}

// writes notes that something is being written, which the client is to take within
// the timeout.
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

// checkSending ends the answer when a write takes too long, and otherwise looks again
// when one can.
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

// stopSending is to be called when nothing more is written: the server may have
// another request in the place of this one.
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

// ends notes that nothing follows what is written next: the client has the timeout to
// take all of it, also when the server is what writes it, after the handler.
func (x *exchange) ends() {
	timeout := x.proxy.settings.SendTimeout
	if x.in.ProtoMajor < 2 || timeout == 0 {
		return
	}
	// A writer without deadlines has none.
	_ = http.NewResponseController(x.w).SetWriteDeadline(time.Now().Add(timeout))
}
