// Package steps is the frame of the canary step plugins: it turns the controller's calls
// Run, Terminate and Abort into operations of a kind of step, and keeps in the Rollout's
// status what has to outlive the process.
//
// A kind starts work, asks how it goes, cancels it and undoes it. The frame decides when:
// it knows timeouts, retries, failure policies, keys and what the controller makes of each
// answer. The kinds are packages of their own, which know the frame and not one another.
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
	// Config is a JSON object: the Rollout's configuration over the preset's defaults.
	Config json.RawMessage
	// Defaults are the preset's alone: an object, or null.
	Defaults json.RawMessage
	// PresetHosts are the hosts that the preset allows, the only ones that a secret of
	// another namespace goes to.
	PresetHosts []string
}

// Step is the work of one step. Its operations make one attempt each, within ctx, and may
// run beside those of other steps; those of one step run one at a time.
//
// An error means that the operation did not come to an answer, and is made again until the
// step's timeout: the network, the API server, an outside that is too busy. What cannot
// become better is a Progress that has failed. Neither may hold a secret.
type Step interface {
	// Settings are the keys that all kinds have.
	Settings() Settings
	// Start does the work's first part, or finds that an earlier Start under the same key
	// has done it. It returns an UnansweredError when the outside may have carried it out
	// without an answer, and another Start may do so again.
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

// Work is what an operation is told.
type Work struct {
	// Rollout is as the controller has it. gob has made a pointer to 0 nil.
	Rollout *v1alpha1.Rollout
	// PluginName is the name under which the plugin is registered.
	PluginName string
	// ID is the step's id, Index its place among the Rollout's steps, from 0.
	ID    string
	Index int32
	// Key identifies one attempt at the step: the same for each call about it, another
	// for each retry, canary and revision. It is 32 hexadecimal digits.
	Key string
	// State is what the last operation of this attempt has returned, and Outputs are those
	// of the attempt so far. Both come from the Rollout's status, which whoever may edit the
	// Rollout may have edited.
	State   json.RawMessage
	Outputs map[string]string
	// Unknown is true for a Start where an earlier one may have been carried out, and for a
	// Cancel where it is not known whether a Start was. Beyond that the first Run that a
	// Rollout knows of may be the second, the answer to the first being lost: a Start that
	// can look for its work looks each time.
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
	// Waiting names what running work waits for. A wait for something else is said in an
	// Event; empty means Message.
	Waiting string
	// State is what the next operation has to know: at most 1 KiB of JSON.
	State json.RawMessage
	// Outputs are for later steps. They are added to those of operations before.
	Outputs map[string]string
	// RetryAfter is when the outside wants to be asked again at the earliest. It counts
	// beside an error too.
	RetryAfter time.Duration
	// MayRun is true for a failure after which the work may still be running: it is
	// cancelled.
	MayRun bool
	// dropped are the names of outputs that were too large.
	dropped []string
}

// ErrNoCleanup is what Cancel and Undo return when the step's configuration has nothing that
// stops the work or takes it back. It is not tried again.
var ErrNoCleanup = errors.New("the step's configuration has nothing for that")

// ErrNoEffect is what Cancel and Undo return for a step that changes nothing outside. It is
// not tried again.
var ErrNoEffect = errors.New("the step changes nothing outside")

// UnansweredError is an operation that the outside may have carried out without an answer.
type UnansweredError struct{ Cause error }

// Error says what has kept the answer away.
func (e *UnansweredError) Error() string { return "no answer: " + e.Cause.Error() }

// Unwrap returns what has kept the answer away.
func (e *UnansweredError) Unwrap() error { return e.Cause }

// isUnanswered tells whether an error leaves open if the operation was carried out.
func isUnanswered(err error) bool {
	var unanswered *UnansweredError
	return errors.As(err, &unanswered)
}
