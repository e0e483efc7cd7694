package proxy

import (
	"context"
	"sync/atomic"
	"time"
)

// headerClock ends a request whose application takes too long to answer with
// headers. It runs from when the request is sent entirely, so that no upload and
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

// start returns the context of the request, and what to call when all is over. A
// clock that does not run yet is started by sent.
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

// sent tells that the request is sent entirely.
func (c *headerClock) sent() {
	if c.timer != nil && c.state.Load() == clockWaits {
		c.timer.Reset(c.timeout)
	}
}

// stop tells whether the answer was in time.
func (c *headerClock) stop() bool {
	if c.timer == nil {
		return true
	}
	c.timer.Stop()
	return c.state.CompareAndSwap(clockWaits, clockStopped)
}
