package steps

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/hashicorp/go-hclog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/bound"
)

// Reasons of the Events on a Rollout.
const (
	// reasonWaiting is for what a step waits for.
	reasonWaiting = "StepWaiting"
	// reasonRetried is for an operation that came to no answer and is tried again.
	reasonRetried = "StepRetried"
	// reasonIgnored is for a failure that failurePolicy ignores.
	reasonIgnored = "StepFailureIgnored"
	// reasonOutput is for outputs that are too large to be kept.
	reasonOutput = "StepOutputDropped"
	// reasonLeft is for what could not be cancelled or undone.
	reasonLeft = "StepLeftBehind"
)

// messageLimit bounds a message in a Rollout's status, in bytes. Some messages include the
// last lines of a log.
const messageLimit = 2 << 10

// lastWait is how long after its timeout a step may wait for a last answer: the progress
// deadline comes a minute after the longest timeout, or has passed.
const lastWait = 40 * time.Second

// waitingLimit bounds what the status keeps of the last Event about a wait, in bytes.
const waitingLimit = 96

// Events writes the Events in which a step says what it waits for and what went wrong, in
// addition to its answers.
type Events interface {
	Warn(about *v1alpha1.Rollout, reason, topic, message string)
	Note(about *v1alpha1.Rollout, reason, message string)
}

// Options say how a Plugin works.
type Options struct {
	// Kind makes the steps; nil with a Problem.
	Kind Kind
	// Problem is what is wrong with the registration. Every step fails with it.
	Problem error
	// Presets is the source of the registration's preset; nil without a preset.
	Presets PresetSource
	Events  Events
	Logger  hclog.Logger
}

// Plugin answers the controller's calls for one registration. Its methods are safe for
// concurrent use.
type Plugin struct {
	opts Options
	// process identifies this process, to tell its Starts from those of an earlier one.
	process    string
	operations *operations
	cleanups   cleanups
	// former holds the presets with which attempts were read, by presetKey; aborted holds
	// the attempts that were aborted.
	former  recent[*Preset]
	aborted recent[struct{}]
	now     func() time.Time
}

// New returns a Plugin. It makes no request before the first call.
func New(opts Options) *Plugin {
	p := &Plugin{opts: opts, process: rand.String(8), now: time.Now}
	p.operations = newOperations(opts.Logger, func() time.Time { return p.now() })
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
		return failed(nil, err.Error()), types.RpcError{}
	}
	r := &run{Plugin: p, ro: ro, pluginName: call.PluginName, config: call.Config, s: s}
	if problem := p.problemWith(s); problem != nil {
		return r.waitForRegistration(problem), types.RpcError{}
	}
	return r.advance(), types.RpcError{}
}

// Terminate cancels the work of a step that was running when its Rollout was promoted in
// full.
func (p *Plugin) Terminate(ro *v1alpha1.Rollout, call *types.RpcStepContext) (types.RpcStepResult, types.RpcError) {
	return p.cleanUp(ro, call, false), types.RpcError{}
}

// Abort cancels the work of a step that was running when its Rollout was aborted, and
// undoes the work of a step that had succeeded.
func (p *Plugin) Abort(ro *v1alpha1.Rollout, call *types.RpcStepContext) (types.RpcStepResult, types.RpcError) {
	return p.cleanUp(ro, call, true), types.RpcError{}
}

// problemWith returns what keeps the registration from going on with a step; nil if
// nothing does.
func (p *Plugin) problemWith(s *status) error {
	if p.opts.Problem == nil && s != nil && s.Kind != p.opts.Kind.Name() {
		return fmt.Errorf("the step was begun as one of kind %q, and is registered with kind %q now: register it as it was, or abort the canary", s.Kind, p.opts.Kind.Name())
	}
	return p.opts.Problem
}

// waitForRegistration answers for a step with which the registration cannot go on. A step
// that may have been started waits, as long as the progress deadline allows, for a
// registration that can go on with it: if the step failed now, its work would be left
// behind.
func (r *run) waitForRegistration(problem error) types.RpcStepResult {
	if r.s == nil || r.s.Stage == stageNew || r.isOfFormerCanary() {
		return failed(nil, problem.Error())
	}
	r.timeout, _ = Settings{Timeout: metav1.Duration{Duration: maxTimeout}}.TimeoutFor(r.ro)
	if r.tick() {
		left := fmt.Sprintf("its work is left as it is: %v", problem)
		r.warnOfLeft(&cleanup{ro: r.ro, s: *r.s}, r.key(), left)
		return failed(r.s, fmt.Sprintf("timed out after %s; %s", r.timeout, left))
	}
	return r.retry("the look at how the work goes", problem, 0)
}

// notStarted tells whether surely no Start was made of the attempt that a status
// describes: this process was the last to write the status, and has made no Start since.
func (p *Plugin) notStarted(ro *v1alpha1.Rollout, s *status) bool {
	return (s.Stage == stageNew || s.Stage == stageAnnounced) && s.Process == p.process &&
		!p.operations.mayHaveStarted(s.workKey(ro), s.Called)
}

// run is one Run of a step.
type run struct {
	*Plugin
	ro         *v1alpha1.Rollout
	pluginName string
	config     json.RawMessage
	// step is nil if the configuration cannot be read.
	step Step
	// outdated is what is wrong with the present preset, if step was read with a former
	// one.
	outdated error
	timeout  time.Duration
	s        *status
	// unstarted is true if surely no Start of the present attempt was made.
	unstarted bool
	// undecided is true if this call does not find out whether a Start was made:
	// status.Process then still names the process that may have made it.
	undecided bool
}

func (r *run) advance() types.RpcStepResult {
	ctx, cancel := context.WithTimeout(context.Background(), callWait)
	defer cancel()
	if r.s != nil && r.isOfFormerCanary() {
		r.forget()
	}
	fresh := r.s == nil
	if fresh {
		r.s = r.newStatus()
	}
	r.unstarted = fresh && !r.operations.hasStart(r.key()) || r.notStarted(r.ro, r.s)
	var err error
	r.timeout, _ = Settings{}.TimeoutFor(r.ro)
	if r.step, r.outdated, err = r.Plugin.step(ctx, r.key(), r.config, !r.unstarted); err == nil {
		r.timeout, err = r.step.Settings().TimeoutFor(r.ro)
		if !r.unstarted {
			err = nil // the deadline was shortened after the start
		}
	}
	if err == nil && (r.s.Stage == stageNew || r.s.Stage == stageAnnounced) {
		err = r.setID()
	}
	late := r.tick()
	var unread *UnreadError
	switch {
	case err != nil && !errors.As(err, &unread) && r.unstarted:
		return failed(r.s, err.Error())
	case err != nil && late:
		return r.timedOut(err.Error())
	case err != nil:
		r.undecided = !r.unstarted
		return r.retry("its configuration", err, 0)
	case late:
		return r.last()
	case r.s.Stage == stageNew && r.mustKnow():
		// The next call starts the work. If the answer to that call is lost, this status
		// tells that the work may have been started.
		r.s.Stage = stageAnnounced
		return r.wait("about to start", 0)
	case r.s.Stage == stageRunning:
		return r.poll()
	default:
		return r.start()
	}
}

// mustKnow tells whether work that may have been started must not be started again.
func (r *run) mustKnow() bool { return r.step.Settings().OnUnknown == OnUnknownFail }

// newStatus returns the status for a step's first Run. The time since the Rollout came to
// the step counts against the timeout.
func (r *run) newStatus() *status {
	index := int32(0)
	if r.ro.Status.CurrentStepIndex != nil { // gob turns a pointer to 0 into nil
		index = *r.ro.Status.CurrentStepIndex
	}
	now := r.now().UTC().Truncate(time.Second)
	s := &status{
		Kind: r.opts.Kind.Name(), Index: index, ID: strconv.Itoa(int(index)),
		Key: keyOf(r.ro, r.pluginName, index), Started: now, Attempt: 1, Stage: stageNew,
	}
	for r.isAborted(s.workKey(r.ro)) { // retried within a second
		s.Key = retriedKeyOf(s.Key)
	}
	if progress := progressing(r.ro).LastUpdateTime; !progress.IsZero() {
		s.Elapsed = seconds(max(now.Sub(progress.Time), 0))
	}
	return s
}

// setID sets the step's id in the status. It returns an error if another step of the
// canary has the same id.
func (r *run) setID() error {
	if id := r.step.Settings().ID; id != "" {
		r.s.ID = id
	}
	for _, other := range r.ro.Status.Canary.StepPluginStatuses {
		if s, err := readStatus(other.Status); err == nil && s != nil && s.ID == r.s.ID && s.Index != r.s.Index {
			return fmt.Errorf("id %q: step %d of the Rollout has the same id; give each step its own", r.s.ID, s.Index+1)
		}
	}
	return nil
}

// tick counts the time since the last call against the timeout, and tells whether the
// timeout has passed. It counts as the controller does for the progress deadline: after a
// pause, from when the Rollout goes on. If tick counted less, the deadline could pass
// first, and then the controller makes no more Runs. A pause is a transition of the
// Progressing condition; pods that come and go change only its update time.
func (r *run) tick() (late bool) {
	now := r.now().UTC().Truncate(time.Second)
	if since := r.s.Called; !since.IsZero() {
		if progress := progressing(r.ro); !progress.LastTransitionTime.Time.Before(since) && progress.LastUpdateTime.After(since) {
			since = progress.LastUpdateTime.Time
		}
		r.s.Elapsed += seconds(max(now.Sub(since), 0))
	}
	r.s.Called = now
	return time.Duration(r.s.Elapsed) >= r.timeout
}

// key is the key of the present attempt.
func (r *run) key() string { return r.s.workKey(r.ro) }

func (r *run) work() Work {
	work := workOf(r.ro, r.pluginName, r.s)
	work.Remaining = max(r.timeout-time.Duration(r.s.Elapsed), 0)
	return work
}

func workOf(ro *v1alpha1.Rollout, pluginName string, s *status) Work {
	return Work{
		Rollout: ro, PluginName: pluginName, ID: s.ID, Index: s.Index,
		Key: s.workKey(ro), State: s.State, Outputs: s.Outputs,
	}
}

// start starts the work of an attempt.
func (r *run) start() types.RpcStepResult {
	if former := r.cleanups.of(r.ro.UID, r.s.Index); former != nil {
		if time.Since(former.begun) < retryPatience {
			r.undecided = !r.unstarted
			return r.wait("waiting for the clean-up of the attempt before", 0)
		}
		former.cancel()
	}
	work := r.work()
	r.unstarted = r.unstarted || r.mustKnow() && r.operations.startRefused(work.Key) // with mustKnow there is one Start
	work.Unknown = !r.unstarted
	if r.mustKnow() && !r.unstarted && !r.operations.hasStart(work.Key) {
		return r.fail("it is not known whether the work was started, as the answer to its start was lost (onUnknown: Fail)", true)
	}
	if r.outdated != nil && !r.operations.hasStart(work.Key) {
		r.undecided = !r.unstarted
		return r.retry("its configuration", r.outdated, 0)
	}
	progress, answered, err := r.operations.start(work.Key, !r.mustKnow() && r.outdated == nil, func(ctx context.Context) (Progress, error) { return r.step.Start(ctx, work) })
	switch {
	case !answered:
		r.s.Stage = stageStarting
		return r.waitForAnswer("waiting for an answer to the start of the work")
	case err == nil:
		return r.found(progress)
	case isUnanswered(err) && r.mustKnow():
		return r.fail(fmt.Sprintf("it is not known whether the work was started (onUnknown: Fail): %v", err), true)
	case isUnanswered(err):
		r.s.Stage = stageStarting
	case r.mustKnow():
		r.s.Stage = stageAnnounced // the one Start that was made was not carried out
	case !r.unstarted:
		r.s.Stage = stageStarting // an earlier Start may have been carried out
	}
	return r.retry("the start of the work", err, progress.RetryAfter)
}

// poll asks how running work goes.
func (r *run) poll() types.RpcStepResult {
	progress, answered, err := r.askOnce()
	switch {
	case !answered:
		return r.waitForAnswer("waiting for an answer on how the work goes")
	case err != nil:
		return r.retry("the look at how the work goes", err, progress.RetryAfter)
	}
	return r.found(progress)
}

func (r *run) askOnce() (progress Progress, answered bool, err error) {
	work := r.work()
	r.operations.stored(work.Key)
	return r.operations.poll(work.Key, func(ctx context.Context) (Progress, error) { return r.step.Poll(ctx, work) })
}

// last asks once more how the work goes before the step counts as timed out.
func (r *run) last() types.RpcStepResult {
	var progress Progress
	var answered bool
	var err error
	switch {
	case r.s.Stage == stageRunning:
		progress, answered, err = r.askOnce()
	case r.operations.hasStart(r.key()):
		progress, answered, err = r.operations.start(r.key(), false, nil)
	default:
		return r.timedOut("the work could not be started")
	}
	switch {
	case !answered && time.Duration(r.s.Elapsed) < r.timeout+lastWait:
		return r.waitForAnswer("waiting for a last answer on how the work goes")
	case !answered:
		return r.timedOut("no answer on how the work goes")
	case err != nil:
		return r.timedOut(err.Error())
	}
	r.take(progress)
	switch progress.Phase {
	case Successful:
		return r.succeed(progress.Message)
	case Failed:
		return r.fail(progress.Message, progress.MayRun)
	default:
		return r.timedOut(progress.Message)
	}
}

// take adds what an operation has found to the status.
func (r *run) take(p Progress) {
	dropped := r.s.take(p)
	r.s.Stage = stageRunning
	if len(dropped) > 0 {
		r.opts.Events.Warn(r.ro, reasonOutput, r.key(), fmt.Sprintf("step %d (%s): output %s is left out: an output may have %d bytes, all of a step %d", r.s.Index+1, r.s.ID, strings.Join(dropped, ", "), outputLimit, outputsLimit))
	}
}

// found adds what an operation has found to the status, and answers accordingly.
func (r *run) found(p Progress) types.RpcStepResult {
	r.take(p)
	switch {
	case p.Phase == Running:
		r.say(p)
		return r.wait(p.Message, p.RetryAfter)
	case p.Phase == Failed && r.s.Attempt <= r.step.Settings().Retries:
		message := fmt.Sprintf("attempt %d of %d has failed, trying again: %s", r.s.Attempt, r.step.Settings().Retries+1, p.Message)
		if p.MayRun {
			message += "; " + r.cancelWork()
		}
		r.say(Progress{Message: message})
		r.s.Attempt++
		r.s.Stage, r.s.State, r.s.Outputs = stageNew, nil, nil
		return r.wait(message, 0)
	case p.Phase == Failed:
		return r.fail(p.Message, p.MayRun)
	default:
		return r.succeed(p.Message)
	}
}

// say writes an Event if running work waits for something else than at the last Event.
func (r *run) say(p Progress) {
	waiting := topicOf(p.Waiting)
	if waiting == "" {
		waiting = bound.Shorten(p.Message, waitingLimit)
	}
	if waiting == r.s.Waiting {
		return
	}
	r.s.Waiting = waiting
	r.opts.Events.Note(r.ro, reasonWaiting, fmt.Sprintf("step %d (%s): %s", r.s.Index+1, r.s.ID, p.Message))
}

// topicOf returns what tells one wait from another, in at most waitingLimit bytes: the
// beginning of a long text would be the same for many.
func topicOf(waiting string) string {
	if len(waiting) <= waitingLimit {
		return waiting
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(waiting)))
}

// retry answers that the step is running and tries something again after an error, and
// writes a Warning Event.
func (r *run) retry(what string, err error, after time.Duration) types.RpcStepResult {
	r.opts.Events.Warn(r.ro, reasonRetried, r.key()+" "+what, fmt.Sprintf("step %d (%s): %s is tried again: %v", r.s.Index+1, r.s.ID, what, err))
	return r.wait(fmt.Sprintf("%s is tried again: %v", what, err), after)
}

// wait answers that the step is running, and asks to be called again after its interval,
// or after retryAfter if that is longer.
func (r *run) wait(message string, retryAfter time.Duration) types.RpcStepResult {
	interval := defaultInterval
	if r.step != nil {
		interval = r.step.Settings().interval()
	}
	return r.waitUntil(message, max(interval, retryAfter))
}

// waitForAnswer answers that the step is running, and asks to be called again soon for the
// outcome of an operation.
func (r *run) waitForAnswer(message string) types.RpcStepResult {
	return r.waitUntil(message, minInterval)
}

func (r *run) waitUntil(message string, after time.Duration) types.RpcStepResult {
	if !r.undecided {
		r.s.Process = r.process
	}
	after = max(min(after, r.timeout-time.Duration(r.s.Elapsed)), minInterval)
	return types.RpcStepResult{Phase: types.PhaseRunning, Message: bound.Shorten(message, messageLimit), RequeueAfter: after, Status: r.s.write()}
}

// succeed answers that the step has succeeded.
func (r *run) succeed(message string) types.RpcStepResult {
	r.s.Stage = stageDone
	return types.RpcStepResult{Phase: types.PhaseSuccessful, Message: bound.Shorten(message, messageLimit), Status: r.s.write()}
}

func (r *run) timedOut(message string) types.RpcStepResult {
	return r.fail(fmt.Sprintf("timed out after %s: %s", r.timeout, message), !r.unstarted)
}

// fail answers that the step has failed. It first cancels work that may be running, as the
// controller makes no Abort for a failed step.
func (r *run) fail(message string, mayRun bool) types.RpcStepResult {
	if mayRun {
		message += "; " + r.cancelWork()
	}
	r.s.Stage = stageFailed
	if r.step != nil && r.step.Settings().FailurePolicy == FailurePolicyIgnore {
		r.opts.Events.Warn(r.ro, reasonIgnored, r.s.Key, fmt.Sprintf("step %d (%s) has failed, which is ignored (failurePolicy: Ignore): %s", r.s.Index+1, r.s.ID, message))
		return types.RpcStepResult{Phase: types.PhaseSuccessful, Message: bound.Shorten("failed, and ignored: "+message, messageLimit), Status: r.s.write()}
	}
	return failed(r.s, message)
}

// cancelWork cancels the work, and says how that went.
func (r *run) cancelWork() string {
	_, said := r.cleanUpWork(cleanup{ro: r.ro, pluginName: r.pluginName, s: *r.s, config: r.config, step: r.step, timeout: r.timeout})
	return said
}

// failed answers that a step has failed, which aborts the canary.
func failed(s *status, message string) types.RpcStepResult {
	result := types.RpcStepResult{Phase: types.PhaseFailed, Message: bound.Shorten(message, messageLimit)}
	if s != nil {
		s.Stage = stageFailed
		result.Status = s.write()
	}
	return result
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
