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
	// callWait is how long a call of the controller waits for an operation that it begins:
	// the call holds one of the controller's ten workers. If the operation lasts longer,
	// the next call takes its outcome.
	callWait = time.Second
	// shortWait is how long a call waits if a longer wait is not worth while: for an
	// operation that an earlier call has begun, or while as many calls as waits says are
	// waiting already.
	shortWait = 50 * time.Millisecond
	waits     = 2
	// operationTimeout bounds one operation. After hungAfter, one that ignores the end of
	// its context counts as hung.
	operationTimeout = 20 * time.Second
	hungAfter        = operationTimeout + 5*time.Second
	// endWait is how long a clean-up waits for an operation that it has told to end.
	endWait = 10 * time.Second
	// outcomeKept is how long the outcome of a Start is kept for the case that the
	// controller could not store it.
	outcomeKept = time.Hour
	// startKept is how long the plugin remembers that there was a Start.
	startKept = 24 * time.Hour
	// pollKept is how long the outcome of a Poll is valid.
	pollKept = time.Minute
	// maxOutcomes bounds the outcomes that are kept.
	maxOutcomes = 10_000
)

// operations runs the operations of steps in the background: an operation may outlast the
// call of the controller that begins it.
type operations struct {
	logger hclog.Logger
	// wait is callWait, except in tests.
	wait time.Duration
	// endWait is endWait, except in tests.
	endWait time.Duration
	now     func() time.Time
	// waiting has an item for each call that waits for longer than shortWait.
	waiting chan struct{}

	mu    sync.Mutex
	all   map[operationKey]*operation
	swept time.Time
	// forgotten holds the attempts whose Starts may have been carried out and have been
	// swept, and when. Attempts that were swept before lost are not in it any more.
	forgotten   map[string]time.Time
	memorySince time.Time
}

func newOperations(logger hclog.Logger, now func() time.Time) *operations {
	return &operations{
		logger: logger, wait: callWait, endWait: endWait, now: now,
		waiting: make(chan struct{}, waits), all: map[operationKey]*operation{}, forgotten: map[string]time.Time{},
	}
}

// operationKey identifies the Start or the Poll of an attempt.
type operationKey struct {
	attempt string
	isStart bool
}

// operation is a Start or a Poll that is under way, or whose outcome is kept.
type operation struct {
	cancel context.CancelFunc
	begun  time.Time
	// taken is true once a call has been told the outcome.
	taken bool
	// mayBeDone is true if an earlier Start of the same attempt may have been carried out.
	mayBeDone bool
	// done is closed when the fields below are set.
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

// refused tells whether an operation has ended, and surely neither it nor an earlier Start
// of the attempt was carried out.
func (op *operation) refused() bool {
	return op.isDone() && !op.mayBeDone && op.err != nil && !isUnanswered(op.err)
}

// waitFor waits for an operation, and tells whether it has ended. If waiting is worthwhile
// and few calls wait already, it waits as long as a call may, else for shortWait.
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

// start runs the Start of an attempt, or joins the one that this process has run already:
// an attempt is not started twice, even if the controller could not store the answer. A
// failed Start is run again only after a call has returned its error, and only if it
// surely was not carried out or if again is true. answered is false if there is no outcome
// yet.
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

// poll runs a Poll of an attempt, or joins the one that an earlier call has begun. It
// returns an outcome only once.
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
		return Progress{}, true, errHung // a second Poll beside it would hang too
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

// sweep drops old outcomes, and if there are too many operations, the outcomes of all that
// have ended.
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
		o.memorySince = now
	}
}

// guarded returns a panic as an UnansweredError: the operation may have been carried out.
func guarded(logger hclog.Logger, run func() (Progress, error)) (progress Progress, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			progress, err = Progress{}, &UnansweredError{panicError(logger, "in an operation of a step", cause)}
		}
	}()
	return run()
}

// panicError logs a panic, with its stack, and returns it as an error for people.
func panicError(logger hclog.Logger, where string, cause any) error {
	logger.Error("panic "+where, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
	return fmt.Errorf("a bug in the plugin: panic: %v (stack in the controller's log; please report it)", cause)
}

// hasStart tells whether a Start of an attempt has been begun, and may have been carried
// out.
func (o *operations) hasStart(attempt string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	op := o.all[operationKey{attempt, true}]
	return op != nil && !op.refused()
}

// mayHaveStarted tells whether this process may have carried out a Start of an attempt
// whose last Run was at the time called.
func (o *operations) mayHaveStarted(attempt string, called time.Time) bool {
	o.mu.Lock()
	_, forgotten := o.forgotten[attempt]
	forgotten = forgotten || !called.After(o.memorySince) || o.now().Sub(called) > startKept
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

// stored drops the outcome of the Start of an attempt: the controller has stored it.
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

// end cancels the Start or the Poll of an attempt, and returns its outcome. there is false
// if there is no such operation, or if it has failed or does not end.
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
		o.drop(key, op) // but remember a Start that may have been carried out
	}
	return op.progress, op.err == nil
}
