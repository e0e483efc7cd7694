package steps

import (
	"maps"
	"sync"
	"time"
)

const (
	// recentKept is how long the value of an attempt is kept: its work may be undone hours
	// after its last Run.
	recentKept = 24 * time.Hour
	// maxRecent bounds the number of values. If there are more within recentKept, all are
	// dropped.
	maxRecent = 10_000
)

// recent keeps a value for each key that was noted lately. The zero recent is empty, and its
// methods are safe for concurrent use.
type recent[V any] struct {
	mu  sync.Mutex
	all map[string]noted[V]
}

type noted[V any] struct {
	value V
	at    time.Time
}

func (r *recent[V]) note(key string, value V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if len(r.all) >= maxRecent {
		maps.DeleteFunc(r.all, func(_ string, n noted[V]) bool { return now.Sub(n.at) > recentKept })
	}
	if r.all == nil || len(r.all) >= maxRecent {
		r.all = map[string]noted[V]{}
	}
	r.all[key] = noted[V]{value, now}
}

// of returns the value of a key, and whether there is one.
func (r *recent[V]) of(key string) (V, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, ok := r.all[key]
	return n.value, ok
}
