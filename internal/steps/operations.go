package steps

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

const (
	// callWait is how long a call of the controller, which holds one of its ten workers,
	// waits for an operation that it begins. The next call takes the outcome of one that
	// lasts longer.
	callWait = time.Second
	// shortWait is how long a call waits where waiting is not worth while: for an operation
	// that an earlier call has begun, or while waits calls wait already.
	shortWait = 50 * time.Millisecond
	waits     = 2
	// operationTimeout bounds one operation, hungAfter those that do not heed it.
	operationTimeout = 20 * time.Second
	hungAfter        = operationTimeout + 5*time.Second
	// endWait is how long a clean-up waits for an operation that it has told to end.
	endWait = 10 * time.Second
	// outcomeKept is how long the outcome of a Start is kept for the case that the
	// controller could not store it.
	outcomeKept = time.Hour
	// startKept is how long it is known that there was a Start.
	startKept = 24 * time.Hour
	// pollKept is how long the outcome of a Poll is worth something.
	pollKept = time.Minute
	// maxOutcomes bounds the outcomes that are kept.
	maxOutcomes = 10_000
)

// operations carries out the operations of steps beside the calls of the controller.
type operations struct {
	logger hclog.Logger
	// wait is callWait but in tests.
	wait time.Duration
	// endWait is endWait but in tests.
	endWait time.Duration
	now     func() time.Time
	// waiting has an item for each call that waits for longer than shortWait.
	waiting chan struct{}

	mu    sync.Mutex
	all   map[operationKey]*operation
	swept time.Time
	// forgotten are the attempts whose Starts may have been carried out and are swept, and
	// when. Of those swept until lost even that is not known.
	forgotten map[string]time.Time
	lost      time.Time
}

func newOperations(logger hclog.Logger, now func() time.Time) *operations {
	return &operations{
		logger: logger, wait: callWait, endWait: endWait, now: now,
		waiting: make(chan struct{}, waits), all: map[operationKey]*operation{}, forgotten: map[string]time.Time{},
	}
}

// operationKey is the key of an attempt, and whether its Start or its Poll is meant.
type operationKey struct {
	attempt string
	isStart bool
}

// operation is one that is under way, or whose outcome is kept.
type operation struct {
	cancel context.CancelFunc
	begun  time.Time
	// taken is whether a call has been told the outcome.
	taken bool
	// mayBeDone is whether a Start of the attempt before this one may have been carried out.
	mayBeDone bool
	// done is closed when what follows is there.
	done     chan struct{}
	ended    time.Time
	progress Progress
	err      error
}

func (op *operation) isDone() bool {
	select {
	case <-op.done:
		return true
	default:
		return false
	}
}

// refused tells whether an operation has ended and was surely not carried out, and none
// before it may have been.
func (op *operation) refused() bool {
	return op.isDone() && !op.mayBeDone && op.err != nil && !isUnanswered(op.err)
}

// waitFor waits for an operation, and tells whether it has ended: for as long as a call may,
// or for a moment where that is not worth while.
func (o *operations) waitFor(done <-chan struct{}, worthwhile bool) bool {
	wait := shortWait
	if worthwhile {
		select {
		case o.waiting <- struct{}{}:
			defer func() { <-o.waiting }()
			wait = o.wait
		default:
		}
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

var errHung = errors.New("no end long after its time: a bug in the plugin, please report it")

// start carries the Start of an attempt out, or takes up the one that is there: an attempt
// that this process has started is not started again, also when the controller could not
// store the answer. Only with again is one made anew of which it is not known whether it
// was carried out, and only when a call has been told of that. answered is false where there
// is no outcome yet.
func (o *operations) start(attempt string, again bool, run func(context.Context) (Progress, error)) (progress Progress, answered bool, err error) {
	key := operationKey{attempt, true}
	mayBeDone := false
	o.mu.Lock()
	if op := o.all[key]; op != nil && op.isDone() && op.taken && op.err != nil && (again || op.refused()) {
		mayBeDone = !op.refused()
		delete(o.all, key)
	}
	o.mu.Unlock()
	op, answered := o.do(key, run)
	o.mu.Lock()
	op.taken = op.taken || answered
	op.mayBeDone = op.mayBeDone || mayBeDone
	o.mu.Unlock()
	switch {
	case !answered && o.now().Sub(op.begun) > hungAfter:
		return Progress{}, true, &UnansweredError{errHung}
	case !answered:
		return Progress{}, false, nil
	}
	return op.progress, true, op.err
}

// poll carries a Poll out, or takes up the one that is there. Its outcome is taken once.
func (o *operations) poll(attempt string, run func(context.Context) (Progress, error)) (progress Progress, answered bool, err error) {
	key := operationKey{attempt, false}
	o.mu.Lock()
	if op := o.all[key]; op != nil && op.isDone() && o.now().Sub(op.ended) > pollKept {
		delete(o.all, key)
	}
	o.mu.Unlock()
	op, answered := o.do(key, run)
	switch {
	case !answered && o.now().Sub(op.begun) > hungAfter:
		return Progress{}, true, errHung // another one beside it would not end either
	case !answered:
		return Progress{}, false, nil
	}
	o.drop(key, op)
	return op.progress, true, op.err
}

func (o *operations) do(key operationKey, run func(context.Context) (Progress, error)) (op *operation, answered bool) {
	op, begun := o.begin(key, run)
	return op, o.waitFor(op.done, begun)
}

func (o *operations) begin(key operationKey, run func(context.Context) (Progress, error)) (op *operation, begun bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if op := o.all[key]; op != nil {
		return op, false
	}
	now := o.now()
	o.sweep(now)
	ctx, cancel := context.WithTimeout(context.Background(), operationTimeout)
	op = &operation{cancel: cancel, begun: now, done: make(chan struct{})}
	o.all[key] = op
	go func() {
		defer close(op.done)
		defer cancel()
		op.progress, op.err = guarded(o.logger, func() (Progress, error) {
			progress, err := run(ctx)
			if err != nil {
				return Progress{RetryAfter: progress.RetryAfter}, err
			}
			return progress.bounded()
		})
		op.ended = o.now()
	}()
	return op, true
}

// sweep forgets outcomes that are old, and all that have ended when there are too many.
func (o *operations) sweep(now time.Time) {
	full := len(o.all) >= maxOutcomes
	if !full && now.Sub(o.swept) < time.Minute {
		return
	}
	o.swept = now
	for key, op := range o.all {
		if op.isDone() && (full || now.Sub(op.ended) > outcomeKept) {
			delete(o.all, key)
			if key.isStart && !op.refused() {
				o.forgotten[key.attempt] = now
			}
		}
	}
	maps.DeleteFunc(o.forgotten, func(_ string, at time.Time) bool { return now.Sub(at) > startKept })
	if len(o.forgotten) > maxOutcomes {
		clear(o.forgotten)
		o.lost = now
	}
}

// guarded makes a panic an error that leaves open what has been carried out.
func guarded(logger hclog.Logger, run func() (Progress, error)) (progress Progress, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			progress, err = Progress{}, &UnansweredError{panicError(logger, "in an operation of a step", cause)}
		}
	}()
	return run()
}

// panicError logs a panic, with its stack, and returns what it says to people.
func panicError(logger hclog.Logger, where string, cause any) error {
	logger.Error("panic "+where, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
	return fmt.Errorf("a bug in the plugin: panic: %v (stack in the controller's log; please report it)", cause)
}

// hasStart tells whether a Start of an attempt has been begun that may have been carried
// out.
func (o *operations) hasStart(attempt string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	op := o.all[operationKey{attempt, true}]
	return op != nil && !op.refused()
}

// mayHaveStarted tells whether this process may have carried out a Start of an attempt that
// was last called at a time.
func (o *operations) mayHaveStarted(attempt string, called time.Time) bool {
	o.mu.Lock()
	_, forgotten := o.forgotten[attempt]
	forgotten = forgotten || !called.After(o.lost) || o.now().Sub(called) > startKept
	o.mu.Unlock()
	return forgotten || o.hasStart(attempt)
}

// startRefused tells whether the last Start of an attempt was surely not carried out.
func (o *operations) startRefused(attempt string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	op := o.all[operationKey{attempt, true}]
	return op != nil && op.refused()
}

// stored forgets the Start of an attempt, whose answer the controller has stored.
func (o *operations) stored(attempt string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if op := o.all[operationKey{attempt, true}]; op != nil && op.isDone() {
		delete(o.all, operationKey{attempt, true})
	}
}

func (o *operations) drop(key operationKey, op *operation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all[key] == op {
		delete(o.all, key)
	}
}

// end has the Start or the Poll of an attempt end, and returns its outcome; there is none
// where it has failed, or does not end.
func (o *operations) end(attempt string, isStart bool) (progress Progress, there bool) {
	key := operationKey{attempt, isStart}
	o.mu.Lock()
	op := o.all[key]
	o.mu.Unlock()
	if op == nil {
		return Progress{}, false
	}
	op.cancel()
	select {
	case <-op.done:
	case <-time.After(o.endWait):
		return Progress{}, false
	}
	if !isStart || op.err != nil && !isUnanswered(op.err) {
		o.drop(key, op) // a Start that may have been carried out is remembered
	}
	return op.progress, op.err == nil
}
