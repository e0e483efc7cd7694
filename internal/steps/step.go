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
	// Config is the kind's section, what stands under `http:`: the Rollout's merged over the
	// preset's. It is a JSON object.
	Config json.RawMessage
	// Defaults is the preset's section: an object, or null.
	Defaults json.RawMessage
	// PresetHosts are the hosts that the preset allows. A secret of another namespace is
	// sent to no other host.
	PresetHosts []string
	// Preset is the name of the preset; empty for none.
	Preset string
	// Settings are the keys that all kinds have, read and validated.
	Settings Settings
}

// Step is the work of one step. Each operation makes one attempt, within ctx. Operations of
// different steps may run at the same time, those of one step run one at a time.
//
// An error means that the operation came to no end (the network, the API server, an outside
// system that is too busy): it is made again until the step's timeout, unless it is a Final
// Error. An Error says what the operation may have done outside nevertheless; one of a Cancel
// or an Undo that may be made again after all has NotDone. A failure of the work is a Progress
// with phase Failed. Neither an error nor a Progress may hold a secret.
type Step interface {
	// Start does the work's first part, or finds that an earlier Start under the same key
	// has done it.
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
	// Repeatable tells whether a Start may be made again after one that may have been carried
	// out: a Job has a name, a PUT says the same twice.
	Repeatable() bool
	// Finds tells whether Start looks for what an earlier one has done.
	Finds() bool
}

// Patient is a Step that says how long one of its operations may take; it is 20 s for others.
type Patient interface{ OperationTimeout() time.Duration }

// Canceller is a Step that says whether it has anything to cancel its work with. One that has
// nothing ends as soon as it has failed, without the call that would cancel.
type Canceller interface{ Cancels() bool }

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
	// Preset is the name of the step's preset; empty for none.
	Preset string
	// Key identifies one attempt at the step: the same for each call about it, another
	// for each retry, canary and revision. It is 32 hexadecimal digits.
	Key string
	// State is what the last operation of this attempt has returned, and Outputs are the
	// outputs of the attempt so far. Both come from the Rollout's status, which everyone
	// who may edit the Rollout can change.
	State   json.RawMessage
	Outputs map[string]string
	// Earlier is what earlier Starts of this attempt have done, as far as is known. Even if it
	// is NotDone a Start may be the second one, as the answer to the first Run may have been
	// lost before the Rollout stored it: a Start that can look for its work looks each time.
	Earlier Outcome
	// LookOnly is true for a Start that only looks for what earlier ones have done: no more
	// may be sent, or not yet. If it finds nothing, it returns an error with NotDone.
	LookOnly bool
	// AbortReason is for Cancel and Undo: why the canary was aborted, or why the step has
	// failed whose work is cancelled. It is one line, and empty where it is not known.
	AbortReason string
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
	// RetryAfter is how long the outside system asks to wait before the next operation.
	RetryAfter time.Duration
	// Outcome is what a Failed progress leaves outside, for a Start that of earlier Starts
	// included. Unless it is NotDone (nothing was done, or what was done has ended), the work
	// is cancelled.
	Outcome Outcome
	// dropped are the names of outputs that were too large.
	dropped []string
}

// ErrNoCleanup is what Cancel and Undo return when the step's configuration has nothing
// that stops the work or takes it back. The operation is not tried again.
var ErrNoCleanup = errors.New("the step's configuration has nothing for that")

// ErrNoEffect is what Cancel and Undo return for a step that changes nothing outside. The
// operation is not tried again.
var ErrNoEffect = errors.New("the step changes nothing outside")
