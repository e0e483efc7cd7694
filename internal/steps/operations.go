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
	// outcomeKept is how long an outcome is kept: no call may ask for it while the Rollout
	// is paused.
	outcomeKept = 24 * time.Hour
)

// operations carries out the operations of steps beside the calls of the controller.
type operations struct {
	logger hclog.Logger
	// wait is callWait but in tests.
	wait time.Duration

	mu  sync.Mutex
	all map[operationKey]*operation
}

// operationKey is the key of an attempt, and whether its Start or its Poll is meant.
type operationKey struct {
	attempt string
	isStart bool
}

// operation is one that is under way, or whose outcome is kept.
type operation struct {
	cancel  context.CancelFunc
	started time.Time
	// done is closed when progress and err are there.
	done     chan struct{}
	progress Progress
	err      error
}

// start carries the Start of an attempt out, or takes up the one that is there: an attempt
// that this process has started is not started again, also when the controller could not
// store the answer. It waits for a few seconds; answered is false where there is no
// outcome yet.
func (o *operations) start(attempt string, run func(context.Context) (Progress, error)) (progress Progress, answered bool, err error) {
	return o.do(operationKey{attempt, true}, run)
}

// poll carries a Poll out as start does a Start. Its outcome is taken once.
func (o *operations) poll(attempt string, run func(context.Context) (Progress, error)) (progress Progress, answered bool, err error) {
	return o.do(operationKey{attempt, false}, run)
}

func (o *operations) do(key operationKey, run func(context.Context) (Progress, error)) (progress Progress, answered bool, err error) {
	op := o.begin(key, run)
	select {
	case <-op.done:
		if op.err != nil || !key.isStart {
			o.drop(key, op)
		}
		return op.progress, true, op.err
	case <-time.After(o.wait):
		return Progress{}, false, nil
	}
}

func (o *operations) begin(key operationKey, run func(context.Context) (Progress, error)) *operation {
	o.mu.Lock()
	defer o.mu.Unlock()
	if op := o.all[key]; op != nil {
		return op
	}
	now := time.Now()
	for old, op := range o.all {
		if now.Sub(op.started) > outcomeKept {
			delete(o.all, old)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), operationTimeout)
	op := &operation{cancel: cancel, started: now, done: make(chan struct{})}
	if o.all == nil {
		o.all = map[operationKey]*operation{}
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

// hasStart tells whether the Start of an attempt is under way, or has been answered.
func (o *operations) hasStart(attempt string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all[operationKey{attempt, true}] != nil
}

func (o *operations) drop(key operationKey, op *operation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all[key] == op {
		delete(o.all, key)
	}
}

// end cancels what is under way of an attempt, and returns the last outcome that there is
// when it has ended.
func (o *operations) end(attempt string) (progress Progress, there bool) {
	for _, isStart := range []bool{true, false} {
		key := operationKey{attempt, isStart}
		o.mu.Lock()
		op := o.all[key]
		o.mu.Unlock()
		if op == nil {
			continue
		}
		op.cancel()
		<-op.done
		o.drop(key, op)
		if op.err == nil {
			progress, there = op.progress, true
		}
	}
	return progress, there
}
