package proxy

import (
	"net/http"
	"time"
)

// allowWrite gives a client of HTTP/2 the time to take what is written next, if it is
// not given yet. It may read its connection and yet take nothing of an answer, of
// which the kernel knows nothing; in HTTP/1.1 the connection's user timeout is all.
func (x *exchange) allowWrite() {
	timeout := x.proxy.settings.SendTimeout
	if x.in.ProtoMajor < 2 || timeout == 0 {
		return
	}
	// A deadline costs a message to the connection's goroutine: one is good for more
	// than one write.
	now := time.Now()
	if x.takeBy.Sub(now) >= timeout {
		return
	}
	x.takeBy = now.Add(timeout + timeout/2)
	_ = http.NewResponseController(x.w).SetWriteDeadline(x.takeBy) // a writer without deadlines has none
}
