package proxy

import (
	"context"
	"sync/atomic"
	"time"
)

// headerClock ends a request whose application takes too long to answer with
// headers. It starts when the request has been sent entirely, so that no upload and
// no stream is cut.
type headerClock struct {
	timer   *time.Timer // nil when there is no limit
	timeout time.Duration
	state   atomic.Int32
}

const (
	clockWaits = iota
	clockStopped
	clockFired
)

// start returns the context of the request, and a function to call when the exchange
// is over. Without run, the clock starts when sent is called.
func (c *headerClock) start(parent context.Context, timeout time.Duration, run bool) (context.Context, context.CancelFunc) {
	if timeout <= 0 {
		return parent, func() {}
	}
	ctx, cancel := context.WithCancel(parent)
	c.timeout = timeout
	c.timer = time.AfterFunc(timeout, func() {
		if c.state.CompareAndSwap(clockWaits, clockFired) {
			cancel()
		}
	})
	if !run {
		c.timer.Stop()
	}
	return ctx, func() {
		c.timer.Stop()
		cancel()
	}
}

// sent starts the clock: the request has been sent entirely.
func (c *headerClock) sent() {
	if c.timer != nil && c.state.Load() == clockWaits {
		c.timer.Reset(c.timeout)
	}
}

// stop stops the clock, and tells whether the answer came in time.
func (c *headerClock) stop() bool {
	if c.timer == nil {
		return true
	}
	c.timer.Stop()
	return c.state.CompareAndSwap(clockWaits, clockStopped)
}
