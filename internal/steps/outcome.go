package steps

import (
	"errors"
	"time"
)

// Outcome says what an operation has done outside.
type Outcome int

// The outcomes, from nothing to all.
const (
	// NotDone: certainly nothing. The request was not sent, or it was refused with a clear
	// answer.
	NotDone Outcome = iota
	// MayBeDone: the request was sent, and no answer says whether it was carried out.
	MayBeDone
	// Done: it was carried out.
	Done
)

// Error is the error of an operation. An error of another type counts as one with NotDone
// that is not Final.
type Error struct {
	// Outcome says what the operation has done nevertheless.
	Outcome Outcome
	// Final is true if another attempt would fail too.
	Final bool
	// UnderWay is true if nothing has failed: an Undo has begun, and the next attempt asks
	// how it goes.
	UnderWay bool
	// RetryAfter is how long the outside system asks to wait before the next attempt.
	RetryAfter time.Duration
	// Cause is what has happened.
	Cause error
}

// Error says what has happened.
func (e *Error) Error() string { return e.Cause.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// OutcomeOf returns what an operation with an error has done.
func OutcomeOf(err error) Outcome { return errorOf(err).Outcome }

// errorOf returns an operation's error as an Error; an empty one for none.
func errorOf(err error) Error {
	var e *Error
	if errors.As(err, &e) {
		return *e
	}
	return Error{Cause: err}
}
