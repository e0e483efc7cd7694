package proxy

import (
	"context"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// outcome is what became of a request that found no endpoint.
type outcome string

const (
	servedCold   outcome = "served"
	failedOver   outcome = "failover"
	waitedInVain outcome = "timeout"
	noRoomToWait outcome = "overflow"
	abandoned    outcome = "abandoned" // by its client
	unrouted     outcome = "unrouted"  // its object is gone

	// moved is a request that another object without endpoints took over: the
	// wait goes on there, and nothing is counted.
	moved outcome = "moved"
)

var outcomes = []outcome{servedCold, failedOver, waitedInVain, noRoomToWait, abandoned, unrouted}

// waitingRoom has the requests that wait for a first endpoint.
type waitingRoom struct {
	maxHeld, maxHeldPerRoute int
	maxBytes                 int64

	closed chan struct{} // when nobody is to wait any more
	close  func()        // once or more often

	mu    sync.Mutex
	held  int
	bytes int64
	cold  map[types.NamespacedName]*coldRoute
}

// coldRoute is what the requests of one route wait at.
type coldRoute struct {
	waiting int
	late    int           // of these, those who wait for the failover as well
	changed chan struct{} // closed, and made anew, when there is reason to look again
}

func newWaitingRoom(s *Settings) *waitingRoom {
	w := &waitingRoom{
		maxHeld: s.MaxHeld, maxHeldPerRoute: s.MaxHeldPerRoute, maxBytes: s.MaxHeldBytes,
		closed: make(chan struct{}), cold: make(map[types.NamespacedName]*coldRoute),
	}
	w.close = sync.OnceFunc(func() { close(w.closed) })
	return w
}

// place is what a request takes up in the waiting room.
type place struct {
	name  types.NamespacedName
	bytes int64
	late  bool
}

// enter takes a place of so many bytes, if there is one: of most, while that much
// leaves half of the room to others, or else of least. It is nil when there is
// none.
func (w *waitingRoom) enter(name types.NamespacedName, least, most int64) *place {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := &place{name: name, bytes: least}
	if w.bytes+most <= w.maxBytes/2 {
		at.bytes = most
	}
	c := w.cold[name]
	if w.held >= w.maxHeld || w.bytes+at.bytes > w.maxBytes || w.maxHeldPerRoute == 0 || c != nil && c.waiting >= w.maxHeldPerRoute {
		return nil
	}
	if c == nil {
		c = &coldRoute{changed: make(chan struct{})}
		w.cold[name] = c
	}
	w.held++
	w.bytes += at.bytes
	c.waiting++
	return at
}

// stay notes that the failover would do now, too.
func (w *waitingRoom) stay(at *place) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at.late = true
	w.cold[at.name].late++
}

// leave gives the place back.
func (w *waitingRoom) leave(at *place) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held--
	w.bytes -= at.bytes
	c := w.cold[at.name]
	if at.late {
		c.late--
	}
	if c.waiting--; c.waiting == 0 {
		delete(w.cold, at.name)
	}
}

// changed returns what is closed at the next reason to look again. Who looks
// after that misses none.
func (w *waitingRoom) changed(name types.NamespacedName) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cold[name].changed
}

// look wakes those for whom the wait may be over. Its cost is that of the routes
// somebody waits at.
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

// lastWord is how long before the end of a shutdown those who are held are
// answered.
const lastWord = time.Second

// closeBefore ends the wait of all shortly before the deadline of ctx, if that is
// not stopped before. Not sooner: the table is kept true meanwhile, most cold
// starts are over in that time, and who is sent away may not come again.
func (w *waitingRoom) closeBefore(ctx context.Context) (stop func()) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return func() {}
	}
	left := time.Until(deadline)
	timer := time.AfterFunc(left-min(lastWord, left/2), w.close)
	return func() { timer.Stop() }
}

// waits returns how long a request waits at a route, and how much longer when the
// failover that is to take it then has no endpoint itself.
func (p *Proxy) waits(route *routes.Route) (wait, longer time.Duration) {
	wait = p.settings.ConditionWait
	if route.ConditionWait != nil {
		wait = *route.ConditionWait
	}
	if f := route.Failover; f != nil {
		return f.After, max(0, wait-f.After)
	}
	return wait, 0
}

func canFailOver(route *routes.Route) bool {
	return route.Failover != nil && len(route.Failover.Active()) > 0
}

// hold keeps a request until its route has an endpoint, or there is reason to
// wait no longer.
func (x *exchange) hold(route *routes.Route, m *routeMetrics) outcome {
	p, name := x.proxy, route.Name
	wait, longer := p.waits(route)
	if wait <= 0 && (longer <= 0 || canFailOver(route)) {
		return waitedInVain
	}
	least, most := heldBytes(x.in)
	at := p.waiting.enter(name, least, most)
	if at == nil {
		return noRoomToWait
	}
	defer p.waiting.leave(at)
	if at.bytes == most {
		x.readAhead()
	}
	m.held.Inc()
	defer m.held.Dec()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		changed := p.waiting.changed(name)
		now := x.lookup()
		switch {
		case now == nil:
			return unrouted
		case !now.Cold():
			return servedCold
		case now.Name != name:
			return moved
		case at.late && canFailOver(now):
			return waitedInVain
		}
		select {
		case <-changed:
		case <-timer.C:
			now := x.lookup()
			switch {
			case now != nil && !now.Cold():
				return servedCold // by an object that took the request over
			case at.late || longer <= 0 || now == nil || canFailOver(now):
				return waitedInVain
			}
			p.waiting.stay(at)
			timer.Reset(longer)
		case <-p.waiting.closed:
			return waitedInVain
		case <-x.in.Context().Done():
			return abandoned
		}
	}
}

// Of a body that nobody reads, this much arrives all the same: what the server's
// buffer of a connection holds; and in HTTP/2 what the client may send, or one
// frame where the request does not say how much there will be. That is mostly a
// call of gRPC, whose message takes the 1 to 16 KiB that it is long. One that
// streams may fill its window; what the streams of a connection have in memory is
// at most 1 MiB together, as it is when they are not held.
const (
	arrivedHTTP1 = 4 << 10
	arrivedHTTP2 = streamWindow
	arrivedFrame = 16 << 10
)

// heldBytes is about what a request keeps in memory while it waits, and what it
// does when its body is read ahead.
func heldBytes(r *http.Request) (least, most int64) {
	size := int64(len(r.RequestURI) + len(r.Host))
	for name, values := range r.Header {
		for _, value := range values {
			size += int64(len(name) + len(value))
		}
	}
	arrived := int64(arrivedHTTP1)
	switch {
	case r.ProtoMajor >= 2 && r.ContentLength < 0:
		arrived = arrivedFrame
	case r.ProtoMajor >= 2:
		arrived = arrivedHTTP2
	}
	if r.ContentLength >= 0 {
		arrived = min(arrived, r.ContentLength)
	}
	if readableAhead(r) {
		return size + arrived, size + r.ContentLength
	}
	return size + arrived, size + arrived
}
