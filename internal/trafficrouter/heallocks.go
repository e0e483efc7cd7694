package trafficrouter

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// locks has a lock for each Rollout that a call or a repair works on.
type locks struct {
	mu   sync.Mutex
	held map[types.NamespacedName]*lock
}

type lock struct {
	free  chan struct{} // holds one token while the lock is free
	users int           // callers that have the lock or wait for it
}

// Lock keeps repairs and other calls of a Rollout away until unlock is called. It fails when
// ctx ends first.
func (l *locks) Lock(ctx context.Context, rollout types.NamespacedName) (unlock func(), err error) {
	l.mu.Lock()
	entry, ok := l.held[rollout]
	if !ok {
		entry = &lock{free: make(chan struct{}, 1)}
		entry.free <- struct{}{}
		l.held[rollout] = entry
	}
	entry.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if entry.users--; entry.users == 0 {
			delete(l.held, rollout)
		}
	}
	select {
	case <-entry.free:
		return func() {
			entry.free <- struct{}{}
			leave()
		}, nil
	case <-ctx.Done():
		leave()
		return nil, fmt.Errorf("another call or a repair of Rollout %s has not ended: %w", rollout, ctx.Err())
	}
}
