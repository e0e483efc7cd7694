package proxy

import (
	"context"
	"net"
	"slices"
)

// connectionWindow is the flow-control window of an HTTP/2 connection: how much of the
// bodies of all streams a client may send before they are read, in bytes.
const connectionWindow = 4 * streamWindow

// connWindow is how much of one connection's flow-control window is charged to waiting
// requests. Each of them may fill the window of its own stream, but all together no
// more than that of the connection. The requests that came first are charged.
type connWindow struct {
	charged int64
	owing   []*place // places that may fill more than they are charged, the oldest first
}

func (c *connWindow) free() int64 { return connectionWindow - c.charged }

// charge charges a place n bytes of what it owes.
func (c *connWindow) charge(at *place, n int64) {
	owed := slices.Contains(c.owing, at)
	c.charged += n
	at.bytes, at.charged, at.owes = at.bytes+n, at.charged+n, at.owes-n
	switch {
	case at.owes > 0 && !owed:
		c.owing = append(c.owing, at)
	case at.owes == 0 && owed:
		c.drop(at)
	}
}

func (c *connWindow) drop(at *place) {
	c.owing = slices.DeleteFunc(c.owing, func(p *place) bool { return p == at })
}

// forget removes a place and its charge, and tells whether other places owe some of
// the window and are to be charged now.
func (c *connWindow) forget(at *place) bool {
	c.charged -= at.charged
	c.drop(at)
	return len(c.owing) > 0
}

// settle charges the parts of windows that are free, as other requests have left, to
// the requests that owe them. It comes last, as each request that is turned away frees
// another part.
func (w *waitingRoom) settle() {
	for len(w.unsettled) > 0 {
		c := w.unsettled[0]
		w.unsettled = w.unsettled[1:]
		for len(c.owing) > 0 && c.free() > 0 {
			at := c.owing[0]
			n := min(at.owes, c.free())
			if w.admit(at.cold, amount{inBytes: n}) {
				c.charge(at, n)
			} else {
				w.turnAway(at)
			}
		}
	}
}

// mayFill charges the place part bytes of its connection's window, as they become free.
// The request is turned away if the waiting room has no room for them.
func (at *place) mayFill(part int64) {
	w := at.room
	w.mu.Lock()
	defer w.mu.Unlock()
	if at.left || part == 0 {
		return
	}
	at.owes = part
	at.window.owing = append(at.window.owing, at)
	w.unsettled = append(w.unsettled, at.window)
	w.settle()
}

type connWindowKey struct{}

// connContext is an http.Server.ConnContext: it gives the requests of a connection its
// connWindow and its lengthWatch.
func connContext(ctx context.Context, c net.Conn) context.Context {
	return withLengthWatch(context.WithValue(ctx, connWindowKey{}, new(connWindow)), c)
}

// connWindowOf returns the connWindow of a request's connection.
func connWindowOf(ctx context.Context) *connWindow {
	if c, ok := ctx.Value(connWindowKey{}).(*connWindow); ok {
		return c
	}
	return new(connWindow) // of a server without connContext
}
