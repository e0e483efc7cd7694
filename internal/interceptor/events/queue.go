package events

import (
	"sync"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// queue holds the problems to be told of, in the order in which they came, each
// once. Adding to it never waits.
type queue struct {
	most int
	// settle is how long a problem waits: one that is gone by then was but the
	// order in which things came, such as an object before its Service.
	settle time.Duration
	now    func() time.Time
	filled chan struct{} // has room for one

	mu      sync.Mutex
	entries []entry
	waiting map[routes.Problem]uint64 // by the number of its entry
	number  uint64
}

type entry struct {
	problem routes.Problem
	number  uint64
	due     time.Time
}

func newQueue(most int, settle time.Duration) *queue {
	return &queue{most: most, settle: settle, now: time.Now, filled: make(chan struct{}, 1), waiting: make(map[routes.Problem]uint64)}
}

// add takes as many as there is room for, and returns how many were dropped.
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

// remove takes back what need not be told any more, and returns the others: those
// that do not wait here.
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

// next takes out the problem that is to be told of now; without one, wait is how
// long until there is, or negative while the queue is empty.
func (q *queue) next() (p routes.Problem, wait time.Duration, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.entries) > 0 {
		first := q.entries[0]
		if q.waiting[first.problem] == first.number {
			if wait := first.due.Sub(q.now()); wait > 0 {
				return p, wait, false
			}
			delete(q.waiting, first.problem)
			q.entries = q.entries[1:]
			return first.problem, 0, true
		}
		q.entries = q.entries[1:]
	}
	q.entries = nil
	return p, -1, false
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// compact drops the entries of what was taken back.
func (q *queue) compact() {
	kept := make([]entry, 0, len(q.waiting))
	for _, e := range q.entries {
		if q.waiting[e.problem] == e.number {
			kept = append(kept, e)
		}
	}
	q.entries = kept
}
