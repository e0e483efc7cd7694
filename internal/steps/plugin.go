package steps

import (
	"cmp"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/hashicorp/go-hclog"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
)

// Reasons of the Events on a Rollout.
const (
	// reasonWaiting says on a Rollout that the step waits for something else than at the last
	// Event. It is an Event of type Normal.
	reasonWaiting = "StepWaiting"
	// reasonRetried says on a Rollout that an operation of a step has failed. The step tries it
	// again.
	reasonRetried = "StepRetried"
	// reasonIgnored says on a Rollout that a step has failed. The canary goes on, as
	// `failurePolicy: Ignore` says.
	reasonIgnored = "StepFailureIgnored"
	// reasonOutput says on a Rollout that a step has left out outputs that are too large. One may
	// have 1 KiB, all of a step 2 KiB.
	reasonOutput = "StepOutputDropped"
	// reasonCleanedUp says on a Rollout that the plugin has cancelled or undone the work of a
	// step. It is an Event of type Normal.
	reasonCleanedUp = "StepCleanedUp"
	// reasonLeft says on a Rollout that the plugin could not cancel or undo the work of a step.
	// The Event names what is left.
	reasonLeft = "StepLeftBehind"
)

// Events writes the Events in which a step says what it waits for and what went wrong, in
// addition to its answers.
type Events interface {
	Warn(about *v1alpha1.Rollout, reason, topic, message string)
	Note(about *v1alpha1.Rollout, reason, message string)
}

// Options say how a Plugin works.
type Options struct {
	// Kind, Kinds and AllowKinds are those of Reader; there are none with a Problem.
	Kind       Kind
	Kinds      []Kind
	AllowKinds []string
	// Problem is what is wrong with the registration. Every step fails with it.
	Problem error
	// Presets is the source of the registration's preset; nil without a preset.
	Presets PresetSource
	Events  Events
	Logger  hclog.Logger
	// CallWait is how long a call waits for an operation that it begins: a
	// second if 0. Tests on a busy machine need longer.
	CallWait time.Duration
}

// Plugin answers the controller's calls for one registration. Its methods are safe for
// concurrent use.
type Plugin struct {
	opts     Options
	attempts *attempts
	now      func() time.Time
}

// New returns a Plugin. It makes no request before the first call.
func New(opts Options) *Plugin {
	opts.CallWait = cmp.Or(opts.CallWait, callWait)
	p := &Plugin{opts: opts, now: time.Now}
	p.attempts = newAttempts(opts, func() time.Time { return p.now() })
	return p
}

// InitPlugin always succeeds: the controller would use the plugin even after an error, and
// never call InitPlugin again.
func (p *Plugin) InitPlugin() types.RpcError { return types.RpcError{} }

// Type is the kind's name.
func (p *Plugin) Type() string {
	if p.opts.Kind == nil {
		return "step"
	}
	return p.opts.Kind.Name()
}

// Run advances a step. It answers within seconds, and never with an error: the controller
// makes no Abort and no Terminate for a step that has returned one.
func (p *Plugin) Run(ro *v1alpha1.Rollout, call *types.RpcStepContext) (types.RpcStepResult, types.RpcError) {
	s, err := readStatus(call.Status)
	if err != nil {
		return types.RpcStepResult{Phase: types.PhaseFailed, Message: err.Error()}, types.RpcError{}
	}
	r := &run{Plugin: p, ro: ro, pluginName: call.PluginName, config: call.Config, s: s}
	return r.advance(), types.RpcError{}
}

// Terminate cancels the work of a step that was running when its Rollout was promoted in
// full.
func (p *Plugin) Terminate(ro *v1alpha1.Rollout, call *types.RpcStepContext) (types.RpcStepResult, types.RpcError) {
	return p.answerCleanup(ro, call, false), types.RpcError{}
}

// Abort cancels the work of a step that was running when its Rollout was aborted, and
// undoes the work of a step that had succeeded.
func (p *Plugin) Abort(ro *v1alpha1.Rollout, call *types.RpcStepContext) (types.RpcStepResult, types.RpcError) {
	return p.answerCleanup(ro, call, true), types.RpcError{}
}

var _ Events = RolloutEvents{}

// RolloutEvents writes Events on Rollouts.
type RolloutEvents struct{ Events *rolloutsplugin.Events }

// Warn writes a Warning Event, once for each topic.
func (e RolloutEvents) Warn(about *v1alpha1.Rollout, reason, topic, message string) {
	e.Events.Warn(rolloutsplugin.RolloutReference(about), reason, topic, message)
}

// Note writes a Normal Event.
func (e RolloutEvents) Note(about *v1alpha1.Rollout, reason, message string) {
	e.Events.Note(rolloutsplugin.RolloutReference(about), reason, message)
}
