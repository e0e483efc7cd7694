package proxy

import (
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

	mu    sync.Mutex
	held  int
	bytes int64
	cold  map[types.NamespacedName]*coldRoute
}

// coldRoute is what the requests of one route wait at.
type coldRoute struct {
	waiting int
	changed chan struct{} // closed, and made anew, when there is reason to look again
}

// enter takes a place, if there is one for so many bytes.
func (w *waitingRoom) enter(name types.NamespacedName, bytes int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.cold[name]
	if w.held >= w.maxHeld || w.bytes+bytes > w.maxBytes || w.maxHeldPerRoute == 0 || c != nil && c.waiting >= w.maxHeldPerRoute {
		return false
	}
	if c == nil {
		c = &coldRoute{changed: make(chan struct{})}
		w.cold[name] = c
	}
	w.held++
	w.bytes += bytes
	c.waiting++
	return true
}

// leave gives the place back.
func (w *waitingRoom) leave(name types.NamespacedName, bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held--
	w.bytes -= bytes
	c := w.cold[name]
	if c.waiting--; c.waiting == 0 {
		delete(w.cold, name)
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
		if route := table.Route(name); route == nil || !route.Cold() {
			close(c.changed)
			c.changed = make(chan struct{})
		}
	}
}

// hold keeps a request until its route has an endpoint, or there is reason to
// wait no longer.
func (x *exchange) hold(route *routes.Route, m *routeMetrics) outcome {
	p := x.proxy
	limit := p.settings.ConditionWait
	if route.ConditionWait != nil {
		limit = *route.ConditionWait
	}
	if route.Failover != nil {
		limit = route.Failover.After
	}
	if limit <= 0 {
		return waitedInVain
	}
	name, bytes := route.Name, heldBytes(x.in)
	if !p.waiting.enter(name, bytes) {
		return noRoomToWait
	}
	defer p.waiting.leave(name, bytes)
	m.held.Inc()
	defer m.held.Dec()
	timer := time.NewTimer(limit)
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
		}
		select {
		case <-changed:
		case <-timer.C:
			if now := x.lookup(); now != nil && !now.Cold() {
				return servedCold // by an object that took the request over
			}
			return waitedInVain
		case <-x.in.Context().Done():
			return abandoned
		}
	}
}

// Of a body that nobody reads, this much arrives all the same.
const (
	arrivedHTTP1 = 4 << 10
	arrivedHTTP2 = streamWindow
)

// heldBytes is about what a request keeps in memory while it waits.
func heldBytes(r *http.Request) int64 {
	size := int64(len(r.RequestURI) + len(r.Host))
	for name, values := range r.Header {
		for _, value := range values {
			size += int64(len(name) + len(value))
		}
	}
	arrived := int64(arrivedHTTP1)
	if r.ProtoMajor >= 2 {
		arrived = arrivedHTTP2
	}
	if r.ContentLength >= 0 {
		arrived = min(arrived, r.ContentLength)
	}
	return size + arrived
}
