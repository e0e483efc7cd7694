package events

import (
	"sync"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// queue holds the problems to be reported, in the order in which they came, each once.
// Adding to it never waits. A namespace may be set aside: its problems keep their
// places, and problems of other namespaces overtake them.
type queue struct {
	most int
	// settle is how long a problem waits. One that is gone by then came only from the
	// order in which objects arrived, such as an object before its Service.
	settle time.Duration
	now    func() time.Time
	filled chan struct{} // signals new entries; has room for one signal

	mu      sync.Mutex
	entries []entry
	waiting map[routes.Problem]uint64 // the number of each problem's entry
	number  uint64
	aside   map[string]time.Time // until when, by namespace
}

type entry struct {
	problem routes.Problem
	number  uint64
	due     time.Time
}

func newQueue(most int, settle time.Duration) *queue {
	return &queue{most: most, settle: settle, now: time.Now, filled: make(chan struct{}, 1), waiting: make(map[routes.Problem]uint64), aside: make(map[string]time.Time)}
}

// add queues as many problems as there is room for, and returns how many were dropped.
func (q *queue) add(problems []routes.Problem) (dropped int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	due := q.now().Add(q.settle)
	for _, p := range problems {
		if _, there := q.waiting[p]; there {
			continue
		}
		if len(q.entries) >= q.most {
			q.compact()
		}
		if len(q.entries) >= q.most {
			dropped++
			continue
		}
		q.number++
		q.entries = append(q.entries, entry{p, q.number, due})
		q.waiting[p] = q.number
	}
	select {
	case q.filled <- struct{}{}:
	default:
	}
	return dropped
}

// remove removes problems that need not be reported any more, and returns the others:
// those that were not in the queue.
func (q *queue) remove(problems []routes.Problem) (others []routes.Problem) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range problems {
		if _, there := q.waiting[p]; !there {
			others = append(others, p)
		}
		delete(q.waiting, p)
	}
	return others
}

// setAside holds back the problems of a namespace until then.
func (q *queue) setAside(namespace string, until time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.aside[namespace] = until
}

// next removes and returns the problem that is to be reported now. If there is none,
// wait is the time until there is, or negative while the queue is empty.
func (q *queue) next() (p routes.Problem, wait time.Duration, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.entries) > 0 && !q.waits(q.entries[0]) {
		q.entries = q.entries[1:]
	}
	if len(q.entries) == 0 {
		q.entries = nil
		clear(q.aside)
		return p, -1, false
	}
	now := q.now()
	wait = -1
	for _, e := range q.entries {
		if !q.waits(e) {
			continue
		}
		until, aside := q.aside[e.problem.Object.Namespace]
		left := max(e.due.Sub(now), until.Sub(now))
		if left <= 0 {
			delete(q.waiting, e.problem)
			return e.problem, 0, true
		}
		if wait < 0 || left < wait {
			wait = left
		}
		if !aside {
			break // the entries after it are due later
		}
	}
	return p, wait, false
}

// waits tells whether an entry is still in the queue: neither returned by next nor
// removed.
func (q *queue) waits(e entry) bool { return q.waiting[e.problem] == e.number }

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// compact drops the entries that no longer wait.
func (q *queue) compact() {
	kept := make([]entry, 0, len(q.waiting))
	for _, e := range q.entries {
		if q.waits(e) {
			kept = append(kept, e)
		}
	}
	q.entries = kept
}
