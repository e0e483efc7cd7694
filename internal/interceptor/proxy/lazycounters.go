package proxy

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// lazyCounters are counters that differ in their last label. Each is made when it first
// counts, so that values that never occur are no series.
type lazyCounters struct {
	all    *prometheus.CounterVec
	labels []string // the others
	// usual is the value that counts most, without a lock.
	usual   string
	ofUsual atomic.Pointer[prometheus.Counter]
	mu      sync.Mutex
	made    []string // the values that have a counter
	gone    bool
}

// inc counts one more of a value.
func (l *lazyCounters) inc(value string) {
	if value == l.usual {
		if counter := l.ofUsual.Load(); counter != nil {
			(*counter).Inc()
			return
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		return
	}
	counter := l.all.WithLabelValues(l.with(value)...)
	if !slices.Contains(l.made, value) {
		l.made = append(l.made, value)
	}
	if value == l.usual {
		l.ofUsual.Store(&counter)
	}
	counter.Inc()
}

// drop drops the series. The counters make none any more.
func (l *lazyCounters) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = true
	for _, value := range l.made {
		l.all.DeleteLabelValues(l.with(value)...)
	}
}

func (l *lazyCounters) with(value string) []string { return append(slices.Clip(l.labels), value) }
