package proxy

import (
	"container/list"
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// waitingRoom has the requests that wait for a first endpoint, within bounds of their
// number and bytes; see admit for how these are shared when they are short.
type waitingRoom struct {
	most        amount
	maxPerRoute int64

	closed chan struct{} // closed when no request may wait any more
	close  func()        // may be called again

	mu        sync.Mutex
	all       *share // its parts are the namespaces
	cold      map[types.NamespacedName]*coldRoute
	unsettled []*connWindow // see settle
}

// coldRoute is a route that requests wait for.
type coldRoute struct {
	name              types.NamespacedName
	namespace, object *share
	late              int           // how many requests wait for the failover as well
	changed           chan struct{} // closed, and replaced, when there is reason to look again
}

func newWaitingRoom(s *Settings) *waitingRoom {
	w := &waitingRoom{
		most: amount{int64(s.MaxHeld), s.MaxHeldBytes}, maxPerRoute: int64(s.MaxHeldPerRoute),
		closed: make(chan struct{}), all: newShare(), cold: make(map[types.NamespacedName]*coldRoute),
	}
	w.close = sync.OnceFunc(func() { close(w.closed) })
	return w
}

// place is what a request takes up in the waiting room.
type place struct {
	room    *waitingRoom
	cold    *coldRoute
	element *list.Element // in cold.object.waiting
	bytes   int64
	late    bool
	left    bool
	away    chan struct{} // closed when the request is turned away for another request

	window        *connWindow // of the request's connection
	charged, owes int64       // of window: included in bytes, and not charged yet
}

// enter takes a place of so many bytes, and charges it part of the connection's window,
// as far as that is not charged to other requests. It returns nil when there is no room.
func (w *waitingRoom) enter(name types.NamespacedName, bytes int64, window *connWindow, part int64) *place {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.cold[name]
	if c == nil {
		namespace := w.all.part(name.Namespace)
		c = &coldRoute{name: name, namespace: namespace, object: namespace.part(name.Name), changed: make(chan struct{})}
		w.cold[name] = c
	}
	at := &place{room: w, cold: c, away: make(chan struct{}), window: window, bytes: bytes, owes: part}
	charged := min(part, window.free())
	if c.object.used[inRequests] >= w.maxPerRoute || !w.admit(c, amount{1, bytes + charged}) {
		w.tidy(c)
		return nil
	}
	at.element = c.object.waiting.PushBack(at)
	window.charge(at, charged)
	if at.owes > 0 {
		w.unsettled = append(w.unsettled, window) // requests turned away may have freed some
	}
	w.settle()
	return at
}

// grow charges the place for more bytes, and tells whether it could. With spare, it
// refuses when more than half of the room would be used. Without spare, the bytes are
// in memory already: other requests are turned away for them, or else this one is.
func (at *place) grow(bytes int64, spare bool) bool {
	w := at.room
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case at.left, spare && w.all.used[inBytes]+bytes > w.most[inBytes]/2:
		return false
	case !w.admit(at.cold, amount{inBytes: bytes}):
		w.turnAway(at)
	default:
		at.bytes += bytes
	}
	w.settle()
	return !at.left
}

// stay notes that the request now waits for the failover as well.
func (w *waitingRoom) stay(at *place) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !at.left {
		at.late = true
		at.cold.late++
	}
}

// leave gives the place back, unless the request was turned away.
func (w *waitingRoom) leave(at *place) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !at.left {
		w.remove(at)
		w.settle()
	}
}

// turnAway takes the place from its request.
func (w *waitingRoom) turnAway(at *place) {
	close(at.away)
	w.remove(at)
}

func (w *waitingRoom) remove(at *place) {
	at.left = true
	at.cold.object.waiting.Remove(at.element)
	w.add(at.cold, amount{-1, -at.bytes})
	if at.late {
		at.cold.late--
	}
	if at.window.forget(at) {
		w.unsettled = append(w.unsettled, at.window)
	}
	w.tidy(at.cold)
}

// tidy forgets an object that no request waits for.
func (w *waitingRoom) tidy(c *coldRoute) {
	if c.object.used[inRequests] > 0 {
		return
	}
	delete(w.cold, c.name)
	c.namespace.drop(c.name.Name)
	if len(c.namespace.parts) == 0 {
		w.all.drop(c.name.Namespace)
	}
}

// changed returns a channel that is closed when the request has to look up its route
// again. A caller that gets the channel before it looks misses no change.
func (w *waitingRoom) changed(at *place) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return at.cold.changed
}

// look wakes the requests whose wait may be over. Its cost depends on the number of
// routes that requests wait for, not on the size of the table.
func (w *waitingRoom) look(table *routes.Table) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, c := range w.cold {
		if route := table.Route(name); route == nil || !route.Cold() || c.late > 0 && canFailOver(route) {
			close(c.changed)
			c.changed = make(chan struct{})
		}
	}
}

// lastWord is how long before the end of a shutdown requests that still wait are
// answered 503.
const lastWord = time.Second

// closeBefore ends the wait of all requests shortly before the deadline of ctx, unless
// stop is called before. Not sooner: the table is still updated, most cold starts are
// over in that time, and a client that gets 503 may not try again.
func (w *waitingRoom) closeBefore(ctx context.Context) (stop func()) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return func() {}
	}
	left := time.Until(deadline)
	timer := time.AfterFunc(left-min(lastWord, left/2), w.close)
	return func() { timer.Stop() }
}
