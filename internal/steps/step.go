// Package steps is the frame of the canary step plugins: it turns the controller's calls
// Run, Terminate and Abort into operations of a kind of step, and keeps in the Rollout's
// status what has to outlive the process.
//
// A kind starts work, asks how it goes, cancels it and undoes it. The frame decides when:
// it knows timeouts, retries, failure policies, keys and what the controller makes of each
// answer. The kinds are packages of their own, which import the frame, but not one another.
package steps

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
)

// Kind makes the steps of one kind from their configuration.
type Kind interface {
	// Name is the first argument of a registration, such as "http".
	Name() string
	// Parse reads a configuration with the preset's defaults applied. The error names the
	// key and says what was expected. It makes no request.
	Parse(Source) (Step, error)
}

// Source is the configuration of one step.
type Source struct {
	// Config is a JSON object: the Rollout's configuration merged over the preset's
	// defaults.
	Config json.RawMessage
	// Defaults are the preset's defaults: an object, or null.
	Defaults json.RawMessage
	// PresetHosts are the hosts that the preset allows. A secret of another namespace is
	// sent to no other host.
	PresetHosts []string
}

// Step is the work of one step. Each operation makes one attempt, within ctx. Operations of
// different steps may run at the same time, those of one step run one at a time.
//
// An error means that the operation came to no answer (the network, the API server, an
// outside system that is too busy): it is made again until the step's timeout. A failure
// that another attempt cannot mend is a Progress with phase Failed. Neither an error nor a
// Progress may hold a secret.
type Step interface {
	// Settings are the keys that all kinds have.
	Settings() Settings
	// Start does the work's first part, or finds that an earlier Start under the same key
	// has done it. It returns an UnansweredError if the outside system may have carried it
	// out without answering, so that another Start may carry it out twice.
	Start(context.Context, Work) (Progress, error)
	// Poll asks how work that is running goes.
	Poll(context.Context, Work) (Progress, error)
	// Cancel stops work that has been started and is not known to have ended. It succeeds
	// when nothing is left to stop.
	Cancel(context.Context, Work) error
	// Undo takes back what finished work has done. It succeeds when nothing is to undo.
	Undo(context.Context, Work) error
	// Left names what stays when Cancel or Undo does not succeed: "Job demo/e2e-1a2b3c".
	Left(Work) string
}

// Work is the input of an operation.
type Work struct {
	// Rollout is as the controller has it, except that gob has turned pointers to 0 into
	// nil.
	Rollout *v1alpha1.Rollout
	// PluginName is the name under which the plugin is registered.
	PluginName string
	// ID is the step's id, Index its place among the Rollout's steps, from 0.
	ID    string
	Index int32
	// Key identifies one attempt at the step: the same for each call about it, another
	// for each retry, canary and revision. It is 32 hexadecimal digits.
	Key string
	// State is what the last operation of this attempt has returned, and Outputs are the
	// outputs of the attempt so far. Both come from the Rollout's status, which everyone
	// who may edit the Rollout can change.
	State   json.RawMessage
	Outputs map[string]string
	// Unknown is true for a Start if an earlier one may have been carried out, and for a
	// Cancel if it is not known whether a Start was. Even if Unknown is false, this may be
	// a second Start, as the answer to the first Run may have been lost before the Rollout
	// stored it: a Start that can look for its work looks each time.
	Unknown bool
	// Remaining is what is left of the step's timeout. It is 0 in the Poll that is made
	// before the step counts as timed out, and in Cancel and Undo.
	Remaining time.Duration
}

// Phase says how far a step's work is.
type Phase string

// The phases that an operation can find.
const (
	Running    Phase = "Running"
	Successful Phase = "Successful"
	Failed     Phase = "Failed"
)

// Progress is what an operation has found.
type Progress struct {
	Phase Phase
	// Message is a sentence for people.
	Message string
	// Waiting names what running work waits for; empty means Message. If it changes, an
	// Event reports the Message.
	Waiting string
	// State is what the next operation has to know: at most 1 KiB of JSON.
	State json.RawMessage
	// Outputs are for later steps. They are added to the outputs of earlier operations.
	Outputs map[string]string
	// RetryAfter is how long the outside system asks to wait before the next operation. It
	// also counts if the operation returns an error.
	RetryAfter time.Duration
	// MayRun is true for a failure after which the work may still be running, and is
	// therefore cancelled.
	MayRun bool
	// dropped are the names of outputs that were too large.
	dropped []string
}

// ErrNoCleanup is what Cancel and Undo return when the step's configuration has nothing
// that stops the work or takes it back. The operation is not tried again.
var ErrNoCleanup = errors.New("the step's configuration has nothing for that")

// ErrNoEffect is what Cancel and Undo return for a step that changes nothing outside. The
// operation is not tried again.
var ErrNoEffect = errors.New("the step changes nothing outside")

// UnansweredError is the error of an operation that the outside system may have carried
// out without answering.
type UnansweredError struct{ Cause error }

// Error says why there is no answer.
func (e *UnansweredError) Error() string { return "no answer: " + e.Cause.Error() }

// Unwrap returns why there is no answer.
func (e *UnansweredError) Unwrap() error { return e.Cause }

// isUnanswered tells whether an error leaves open whether the operation was carried out.
func isUnanswered(err error) bool {
	var unanswered *UnansweredError
	return errors.As(err, &unanswered)
}
