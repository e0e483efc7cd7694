package proxy

import (
	"context"
	"net"
	"slices"
)

// connectionWindow is how much of the bodies of all its streams an HTTP/2 client
// may send before they are read, in bytes.
const connectionWindow = 4 * streamWindow

// connWindow is what of one connection's window is charged to requests that wait.
// Each of them may fill that of its own stream, but all of them together no more
// than the connection's. Those that came first are charged.
type connWindow struct {
	charged int64
	owing   []*place // that may fill more than they are charged, the oldest first
}

func (c *connWindow) free() int64 { return connectionWindow - c.charged }

// charge has a place be charged so much of what it owes.
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

// forget takes a place away, and tells whether others are to be charged now.
func (c *connWindow) forget(at *place) bool {
	c.charged -= at.charged
	c.drop(at)
	return len(c.owing) > 0
}

// settle charges to other requests the parts of windows that those which left were
// charged. It comes last, as each request that is turned away frees another part.
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

// mayFill has the place be charged so much of its connection's window, or taken
// where there is no room for that.
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

// connContext makes the window and the watch of a connection known to the requests
// on it, as http.Server.ConnContext.
func connContext(ctx context.Context, c net.Conn) context.Context {
	return withLengthWatch(context.WithValue(ctx, connWindowKey{}, new(connWindow)), c)
}

// connWindowOf returns that of a request's connection.
func connWindowOf(ctx context.Context) *connWindow {
	if c, ok := ctx.Value(connWindowKey{}).(*connWindow); ok {
		return c
	}
	return new(connWindow) // another server's
}
