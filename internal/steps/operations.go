package steps

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

const (
	// callWait is how long a call of the controller, which holds one of its workers, waits
	// for an operation. The next call takes the outcome of one that lasts longer.
	callWait = 3 * time.Second
	// operationTimeout bounds one operation.
	operationTimeout = 30 * time.Second
	// uncollected is how long an outcome is kept that no call has asked for: the Rollout
	// may be paused.
	uncollected = 24 * time.Hour
)

// operations carries out the operations of steps beside the calls of the controller, one at
// a time for each attempt at a step.
type operations struct {
	logger hclog.Logger

	mu  sync.Mutex
	all map[string]*operation
}

// operation is one that is under way, or whose outcome no call has taken yet.
type operation struct {
	cancel  context.CancelFunc
	started time.Time
	// done is closed when progress and err are there.
	done     chan struct{}
	progress Progress
	err      error
}

// do carries an operation out under the key of an attempt, or takes up the one that is
// there. It waits for a few seconds; answered is false where there is no outcome yet.
func (o *operations) do(key string, run func(context.Context) (Progress, error)) (progress Progress, answered bool, err error) {
	op := o.begin(key, run)
	select {
	case <-op.done:
		o.drop(key, op)
		return op.progress, true, op.err
	case <-time.After(callWait):
		return Progress{}, false, nil
	}
}

func (o *operations) begin(key string, run func(context.Context) (Progress, error)) *operation {
	o.mu.Lock()
	defer o.mu.Unlock()
	if op := o.all[key]; op != nil {
		return op
	}
	now := time.Now()
	for old, op := range o.all {
		if now.Sub(op.started) > uncollected {
			delete(o.all, old)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), operationTimeout)
	op := &operation{cancel: cancel, started: now, done: make(chan struct{})}
	if o.all == nil {
		o.all = map[string]*operation{}
	}
	o.all[key] = op
	go func() {
		defer close(op.done)
		defer cancel()
		op.progress, op.err = guarded(o.logger, func() (Progress, error) { return run(ctx) })
	}()
	return op
}

// guarded makes a panic an error that leaves open what has been carried out.
func guarded(logger hclog.Logger, run func() (Progress, error)) (progress Progress, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			logger.Error("panic in an operation of a step", "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
			progress, err = Progress{}, &UnansweredError{fmt.Errorf("a bug in the plugin: panic: %v (stack in the controller's log; please report it)", cause)}
		}
	}()
	return run()
}

// has tells whether an operation is under way under a key, or its outcome not taken yet.
func (o *operations) has(key string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all[key] != nil
}

func (o *operations) drop(key string, op *operation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all[key] == op {
		delete(o.all, key)
	}
}

// end cancels the operation under a key, if there is one, and returns its outcome when it
// has ended.
func (o *operations) end(key string) (progress Progress, there bool, err error) {
	o.mu.Lock()
	op := o.all[key]
	o.mu.Unlock()
	if op == nil {
		return Progress{}, false, nil
	}
	op.cancel()
	<-op.done
	o.drop(key, op)
	return op.progress, true, op.err
}
