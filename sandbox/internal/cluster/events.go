package cluster

import (
	"context"
	"fmt"
	"iter"
	"sync"
)

// events is the history of a sandbox's start, which any number of readers can
// follow from its beginning.
type events struct {
	mu      sync.Mutex
	list    []Event
	changed chan struct{} // closed and replaced at each event
	over    bool
}

func newEvents() *events {
	return &events{changed: make(chan struct{})}
}

func (e *events) add(event Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return
	}
	// A repeated status is no event.
	if n := len(e.list); event.Status != "" && n > 0 && e.list[n-1].Status == event.Status {
		return
	}
	e.list = append(e.list, event)
	e.over = event.Ready || event.Error != ""
	close(e.changed)
	e.changed = make(chan struct{})
}

func (e *events) say(format string, args ...any) {
	e.add(Event{Said: fmt.Sprintf(format, args...)})
}

func (e *events) status(format string, args ...any) {
	e.add(Event{Status: fmt.Sprintf(format, args...)})
}

// all yields every event, past and future, until the last one or until ctx ends.
func (e *events) all(ctx context.Context) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for next := 0; ; {
			e.mu.Lock()
			fresh, over, changed := e.list[next:], e.over, e.changed
			e.mu.Unlock()
			for _, event := range fresh {
				if !yield(event) {
					return
				}
			}
			next += len(fresh)
			if over {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
		}
	}
}

// outcome returns the last event if the start is over.
func (e *events) outcome() (Event, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over {
		return Event{}, false
	}
	return e.list[len(e.list)-1], true
}
