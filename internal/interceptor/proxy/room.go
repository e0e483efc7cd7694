package proxy

import (
	"container/list"
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// waitingRoom has the requests that wait for an endpoint, within bounds of their
// number and bytes; see admit for how these are shared when they are short.
type waitingRoom struct {
	most        amount
	maxPerRoute int64

	closed chan struct{} // closed when no request may wait any more
	close  func()        // may be called again

	mu   sync.Mutex
	all  *share // its parts are the namespaces
	cold map[types.NamespacedName]*coldRoute
}

// coldRoute is a route that requests wait for.
type coldRoute struct {
	name              types.NamespacedName
	namespace, object *share
	changed           chan struct{} // closed, and replaced, when the route has changed
}

func newWaitingRoom(s *Settings) *waitingRoom {
	w := &waitingRoom{
		most: amount{int64(s.MaxHeld), s.MaxHeldBytes}, maxPerRoute: int64(s.MaxHeldPerRoute),
		closed: make(chan struct{}), all: newShare(nil), cold: make(map[types.NamespacedName]*coldRoute),
	}
	w.close = sync.OnceFunc(func() { close(w.closed) })
	return w
}

// waiter is a request in the waiting room.
type waiter struct {
	cold    *coldRoute
	element *list.Element // in cold.object.waiting
	bytes   int64
	late    bool
	left    bool
	evicted chan struct{} // closed when the request is turned away for another one
}

// enter lets a request of so many bytes wait. It returns nil when there is no room.
func (w *waitingRoom) enter(name types.NamespacedName, bytes int64) *waiter {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.cold[name]
	if c == nil {
		namespace := w.all.part(name.Namespace)
		c = &coldRoute{name: name, namespace: namespace, object: namespace.part(name.Name), changed: make(chan struct{})}
		w.cold[name] = c
	}
	if c.object.used[inRequests] >= w.maxPerRoute || !w.admit(c, amount{1, bytes}) {
		w.tidy(c)
		return nil
	}
	at := &waiter{cold: c, evicted: make(chan struct{}), bytes: bytes}
	at.element = c.object.waiting.PushBack(at)
	return at
}

// admit gives an object more of the room, and tells whether it did. If too little is
// free, requests are turned away until there is enough: from the object's namespace
// while that would exceed its share, and then from the namespace that uses most;
// each time the newest request of the object that uses most there. If both the object
// and its namespace would exceed their shares, the object gets nothing, and no request
// is turned away.
func (w *waitingRoom) admit(c *coldRoute, more amount) bool {
	for of, n := range more {
		if _, ok := c.object.allowed(w.most[of], of, n); !ok {
			return false
		}
	}
	// Turning requests away for one resource can only free the other, too.
	for of, n := range more {
		most, _ := c.object.allowed(w.most[of], of, n)
		for c.namespace.used[of]+n > most {
			w.evict(c.namespace.largest(of).newest())
		}
		for w.all.used[of]+n > w.most[of] {
			w.evict(w.all.largest(of).largest(of).newest())
		}
	}
	c.object.add(more)
	return true
}

// waitLonger records that the request now waits for the failover as well.
func (w *waitingRoom) waitLonger(at *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at.late = true
}

// leave ends the wait of a request, unless it was evicted.
func (w *waitingRoom) leave(at *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !at.left {
		w.remove(at)
	}
}

// evict turns a request away.
func (w *waitingRoom) evict(at *waiter) {
	close(at.evicted)
	w.remove(at)
}

func (w *waitingRoom) remove(at *waiter) {
	at.left = true
	at.cold.object.waiting.Remove(at.element)
	at.cold.object.add(amount{-1, -at.bytes})
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
// again. A caller that gets the channel before the lookup misses no change.
func (w *waitingRoom) changed(at *waiter) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return at.cold.changed
}

// wake wakes the requests whose route is not the same in a table as in the one before. Its
// cost depends on the number of routes that requests wait for, not on the size of the table.
func (w *waitingRoom) wake(before, table *routes.Table) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, c := range w.cold {
		if table.Route(name) != before.Route(name) {
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
