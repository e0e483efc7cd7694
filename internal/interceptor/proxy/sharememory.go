package proxy

import (
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// largestRequest is about how much memory a request under way takes at most, in bytes: its
// own, what its client and its application may send before it is read, and a buffer.
const largestRequest = heldRequest + streamWindow + upstreamStreamWindow + 32<<10

// shareMemory refuses requests while memory is short: those of objects that have more
// than an equal share of the requests under way, so that others get through. Waiting
// requests and tunnels are under way, too. None is refused while so few are under way
// that there is memory for all of them: then requests are not why memory is short.
func (p *Proxy) shareMemory(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := recordOf(r)
		object := p.underWay.begin(rec.object(), &p.memory)
		if object == nil {
			rec.backend = &rec.served.backends[0]
			p.refuseForNow(w, r, "the interceptor is short of memory, and HTTPScaledObject %s has more than its share of the requests under way", rec.object())
			return
		}
		defer p.underWay.end(object)
		next.ServeHTTP(w, r)
	})
}

// underWay counts the requests under way by namespace and object.
type underWay struct {
	mu  sync.Mutex
	all *share // its parts are the namespaces
}

// begin counts a request of an object, and returns the share of the object, for end. While
// memory is short, it returns nil for an object that is beyond its share.
func (u *underWay) begin(name types.NamespacedName, m *memory) *share {
	u.mu.Lock()
	defer u.mu.Unlock()
	object := u.all.part(name.Namespace).part(name.Name)
	if m.short.Load() && u.isBeyond(object, m.room.Load(), m.scarce.Load()) {
		return nil
	}
	object.add(amount{inRequests: 1})
	return object
}

// isBeyond tells whether an object would have more than its share with one more request;
// if byNamespace, whether its namespace would. There is room for so many requests of all
// objects, at least. The only request of a namespace is within its share.
func (u *underWay) isBeyond(object *share, room int64, byNamespace bool) bool {
	has := object.parent.used[inRequests]
	if has == 0 {
		return false
	}
	most, ok := object.allowed(max(room, u.all.used[inRequests]), inRequests, 1)
	return !ok || byNamespace && has+1 > most
}

// end is for when the request is over.
func (u *underWay) end(object *share) {
	u.mu.Lock()
	defer u.mu.Unlock()
	object.add(amount{inRequests: -1})
}

// sweep forgets the objects that have no request under way. They are not forgotten with
// their last request, as another one mostly follows.
func (u *underWay) sweep() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for name, namespace := range u.all.byName {
		for object, s := range namespace.byName {
			if s.used == (amount{}) {
				namespace.drop(object)
			}
		}
		if len(namespace.parts) == 0 {
			u.all.drop(name)
		}
	}
}
