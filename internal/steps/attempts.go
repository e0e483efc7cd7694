package steps

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	k8stypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
)

const (
	// callWait is how long a call of the controller waits for an operation that it begins:
	// the call holds one of the controller's ten workers. If the operation lasts longer,
	// the next call gets its outcome.
	callWait = time.Second
	// shortWait is how long a call waits if a longer wait is not worth while: for an
	// operation that an earlier call has begun, or while as many calls as waits says are
	// waiting already.
	shortWait = 50 * time.Millisecond
	waits     = 2
	// operationTimeout bounds one operation of a step that is not Patient. An operation that
	// still runs hungAfter the end of its context counts as hung.
	operationTimeout = 20 * time.Second
	hungAfter        = 5 * time.Second
	// endWait is how long a clean-up waits for an operation that it has told to end.
	endWait = 10 * time.Second
	// attemptKept is how long an attempt is kept that nothing is done for: the controller
	// may not have stored what its Start has done, and the Rollout may be paused.
	attemptKept = 24 * time.Hour
	// maxAttempts bounds the attempts that are kept. If there are more, those that nothing is
	// done for are dropped.
	maxAttempts = 5_000
	// pollKept is how long the outcome of a Poll is valid.
	pollKept = time.Minute
)

// attempts is what this process does for attempts at steps, and what the Rollouts' statuses
// may not tell, as an answer was lost. An operation runs in the background, for it may
// outlast the call that begins it.
type attempts struct {
	logger hclog.Logger
	// wait is Options.CallWait; endWait is the constant, except in tests.
	wait, endWait time.Duration
	now           func() time.Time
	// waiting has an item for each call that waits for longer than shortWait.
	waiting chan struct{}

	mu    sync.Mutex
	all   map[string]*attempt // by the attempt's key
	swept time.Time
	// process identifies this process, to tell its Starts from those of an earlier one. When
	// attempts are dropped that are not old, it is another one.
	process string
}

// attempt is guarded by the mutex of attempts.
type attempt struct {
	used  time.Time
	op    *operation
	sends sends
	// aborted is true after an Abort.
	aborted bool
	// cleanup is the last one, unless it has failed.
	cleanup *cleanup
	// preset is what a configuration was last read with; it has an attempt of its own, by
	// presetKey.
	preset *Preset
}

// operation is a Start, or another operation, that is under way or whose outcome is kept.
type operation struct {
	isStart bool
	cancel  context.CancelFunc
	// hangs is when it counts as hung.
	hangs time.Time
	// done is closed when the fields below are set.
	done     chan struct{}
	ended    time.Time
	progress Progress
	err      error
}

func newAttempts(opts Options, now func() time.Time) *attempts {
	return &attempts{
		logger: opts.Logger, wait: opts.CallWait, endWait: endWait, now: now,
		waiting: make(chan struct{}, waits), all: map[string]*attempt{}, process: rand.String(8),
	}
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// isIdle tells whether nothing is under way for an attempt.
func (a *attempt) isIdle() bool {
	return (a.op == nil || isClosed(a.op.done)) && (a.cleanup == nil || a.cleanup.over)
}

// isStarted tells whether a Start is under way, or its outcome is kept.
func (a *attempt) isStarted() bool { return a.op != nil && a.op.isStart }

// do calls a function with the attempt that has a key, made anew if there is none.
func (s *attempts) do(key string, f func(*attempt)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	a := s.all[key]
	if a == nil {
		s.sweep(now)
		a = &attempt{}
		s.all[key] = a
	}
	a.used = now
	if f(a); *a == (attempt{used: now}) {
		delete(s.all, key)
	}
}

// keepPreset keeps the preset that a configuration was read with.
func (s *attempts) keepPreset(key string, preset *Preset) {
	s.do(key, func(a *attempt) { a.preset = preset })
}

// sweep drops attempts that nothing is done for: the old ones, or all if there are too many.
func (s *attempts) sweep(now time.Time) {
	full := len(s.all) >= maxAttempts
	if !full && now.Sub(s.swept) < time.Minute {
		return
	}
	s.swept = now
	for key, a := range s.all {
		if a.isIdle() && (full || now.Sub(a.used) > attemptKept) {
			delete(s.all, key)
		}
	}
	if full {
		s.process = rand.String(8)
	}
}

// of returns what is known of the attempt with a key; an empty one if there is none.
func (s *attempts) of(key string) *attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := attempt{}
	if a := s.all[key]; a != nil {
		known = *a
	}
	return &known
}

// processID identifies the process whose attempts are all known.
func (s *attempts) processID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// waitFor waits for an operation, and tells whether it has ended. If waiting is worthwhile
// and few calls wait already, it waits as long as a call may, else for shortWait.
func (s *attempts) waitFor(done <-chan struct{}, worthwhile bool) bool {
	wait := shortWait
	if worthwhile {
		select {
		case s.waiting <- struct{}{}:
			defer func() { <-s.waiting }()
			wait = s.wait
		default:
		}
	}
	select {
	case <-done:
		return true
	case <-time.After(wait):
		return false
	}
}

var errHung = errors.New("no end long after its time: a bug in the plugin, please report it")

// operate runs the Start or a Poll of an attempt, or joins the one under way. answered is
// false if there is no outcome yet. That of a Start is kept until the Rollout has stored it,
// unless it is an error: what that has done is in attempt.sends. Others are returned once.
func (s *attempts) operate(key string, isStart bool, bound time.Duration, run func(context.Context) (Progress, error)) (progress Progress, answered bool, err error) {
	var op *operation
	begun := false
	s.do(key, func(a *attempt) {
		if !isStart {
			a.sends = sends{} // the Rollout has stored what they tell
		}
		op = a.op
		if op == nil || op.isStart != isStart || !isStart && isClosed(op.done) && s.now().Sub(op.ended) > pollKept {
			op, begun = s.begin(bound, run), true
			op.isStart, a.op = isStart, op
		}
	})
	switch {
	case s.waitFor(op.done, begun):
	case s.now().After(op.hangs): // another one beside it would hang too
		return Progress{}, true, &Error{Outcome: MayBeDone, Cause: errHung}
	default:
		return Progress{}, false, nil
	}
	if op.err != nil || !isStart {
		s.do(key, func(a *attempt) {
			if a.op == op {
				a.op = nil
			}
		})
	}
	return op.progress, true, op.err
}

func (s *attempts) begin(bound time.Duration, run func(context.Context) (Progress, error)) *operation {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	op := &operation{cancel: cancel, hangs: s.now().Add(bound + hungAfter), done: make(chan struct{})}
	go func() {
		defer close(op.done)
		defer cancel()
		op.progress, op.err = guarded(s.logger, func() (Progress, error) {
			progress, err := run(ctx)
			if err != nil {
				return Progress{}, err
			}
			return progress.bounded()
		})
		op.ended = s.now()
	}()
	return op
}

// end tells the operation of an attempt to end, waits for that, and forgets it. It returns
// nil if there is none.
func (s *attempts) end(key string) *operation {
	op := s.of(key).op
	if op == nil {
		return nil
	}
	op.cancel()
	select {
	case <-op.done:
		s.do(key, func(a *attempt) { a.op = nil })
	case <-time.After(s.endWait):
	}
	return op
}

// cleanupOf returns the clean-up under way of a Rollout's step; nil if there is none.
func (s *attempts) cleanupOf(rollout k8stypes.UID, index int32) *cleanup {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.all {
		if c := a.cleanup; c != nil && !c.over && c.ro.UID == rollout && c.s.Index == index {
			return c
		}
	}
	return nil
}

// boundOf returns how long one operation of a step may take.
func boundOf(step Step) time.Duration {
	if patient, ok := step.(Patient); ok {
		return patient.OperationTimeout()
	}
	return operationTimeout
}

// guarded returns a panic as an error: the operation may have been carried out.
func guarded(logger hclog.Logger, run func() (Progress, error)) (progress Progress, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			progress, err = Progress{}, &Error{Outcome: MayBeDone, Cause: PanicError(logger, "in an operation of a step", cause)}
		}
	}()
	return run()
}

// PanicError logs a panic, with its stack, and returns it as an error for people.
func PanicError(logger hclog.Logger, where string, cause any) error {
	logger.Error("panic "+where, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
	return fmt.Errorf("a bug in the plugin: panic: %v (stack in the controller's log; please report it)", cause)
}
