package steps

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/steps/bound"
)

const (
	// messageLimit bounds a message in a Rollout's status, in bytes. Some messages include
	// the last lines of a log.
	messageLimit = 2 << 10
	// maxSends is how many Starts of an attempt may be carried out, as far as is known,
	// unless more do no harm. They are spread over the timeout, to outlast an outage.
	maxSends = 3
	// After its timeout a step waits for a last answer for lastPoll, and for the call that
	// cancels its work for lastCall: the next call comes 17 s later, and the progress
	// deadline comes a minute after the longest timeout, or has passed.
	lastPoll = 20 * time.Second
	lastCall = 40 * time.Second
)

// run is one Run of a step.
type run struct {
	*Plugin
	configured
	ro         *v1alpha1.Rollout
	pluginName string
	config     json.RawMessage
	timeout    time.Duration
	s          *status
	// unstarted is true if surely no Start of the present attempt may have been carried out.
	unstarted bool
}

func (r *run) advance() types.RpcStepResult {
	if r.s != nil && r.isOfFormerCanary() {
		r.forget()
	}
	if r.s == nil {
		r.s = r.newStatus()
		r.unstarted = r.nothingSent(r.ro, r.s)
	} else {
		if !r.isKnown(r.s) {
			r.s.Process = ""
		}
		r.unstarted = r.notStarted(r.ro, r.s)
	}
	r.s.join(r.attempts.of(r.key()).sends)
	r.tick()
	err := r.configure()
	isPreset := errors.As(err, new(*PresetError))
	switch {
	case r.s.Stage == stageFailing, r.s.Stage == stageRetrying:
		return r.cancelFailed()
	case err != nil && r.unstarted && !isPreset:
		r.settings.FailurePolicy = "" // it is for the failures of work
		return r.fail(err.Error(), NotDone)
	case isPreset:
		return r.retry("its preset cannot be used", err, 0)
	case err != nil:
		return r.retry("its configuration cannot be used", err, 0)
	case r.disabled != "" && r.unstarted:
		return r.pass(r.disabled)
	case r.s.Stage == stageRunning:
		return r.poll() // once more if it is late
	case r.isLate() && !r.attempts.of(r.key()).isStarted():
		return r.timedOut(cmp.Or(r.s.Failure, "the work could not be started"))
	case r.s.Stage == stageNew && r.unstarted && r.atMostOnce():
		// The next call starts the work. If the answer to that call is lost, this status
		// tells that the work may have been started.
		r.s.Stage = stageAnnounced
		return r.wait("about to start", 0)
	default:
		return r.start()
	}
}

// newStatus returns the status for a step's first Run. The time since the Rollout came to
// the step counts against the timeout.
func (r *run) newStatus() *status {
	index := int32(0)
	if r.ro.Status.CurrentStepIndex != nil { // gob turns a pointer to 0 into nil
		index = *r.ro.Status.CurrentStepIndex
	}
	now := r.now().UTC().Truncate(time.Second)
	s := &status{
		Index: index, ID: strconv.Itoa(int(index)), Key: keyOf(r.ro, r.pluginName, index),
		Started: now, Attempt: 1, Stage: stageNew, Process: r.attempts.processID(),
	}
	for r.attempts.of(s.workKey(r.ro)).aborted { // retried within a second
		s.Key = retriedKeyOf(s.Key)
	}
	if progress := progressing(r.ro).LastUpdateTime; !progress.IsZero() {
		s.Elapsed = max(now.Sub(progress.Time), 0)
	}
	return s
}

// isKnown tells whether this process has written a status, and knows what it has done for
// the step since.
func (p *Plugin) isKnown(s *status) bool {
	return s.Process == p.attempts.processID() && p.now().Sub(s.Called) < attemptKept
}

// notStarted tells whether surely no Start that may have been carried out was made of the
// attempt that a status describes.
func (p *Plugin) notStarted(ro *v1alpha1.Rollout, s *status) bool {
	return (s.Stage == stageNew || s.Stage == stageAnnounced) && p.isKnown(s) && p.nothingSent(ro, s)
}

// nothingSent tells whether neither a status nor this process knows of a Start that may
// have been carried out.
func (p *Plugin) nothingSent(ro *v1alpha1.Rollout, s *status) bool {
	a := p.attempts.of(s.workKey(ro))
	return !a.isStarted() && a.sends.Sends == 0 && s.Sends == 0
}

// configure reads the step's configuration. As soon as it is read, the Start counts that an
// earlier process may have made, if its answer was lost.
func (r *run) configure() (err error) {
	if r.opts.Problem != nil {
		r.timeout, _ = Settings{Timeout: metav1.Duration{Duration: maxTimeout}}.TimeoutFor(r.ro)
		return r.opts.Problem
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.opts.CallWait)
	defer cancel()
	r.configured, err = r.readKind(ctx, r.ro, r.pluginName, r.s, r.config, !r.unstarted)
	if r.preset != "" {
		r.s.Preset = r.preset
	}
	if err != nil {
		if r.unstarted {
			r.s.ID = cmp.Or(r.settings.ID, r.s.ID)
		}
		settings := r.settings
		if !r.unstarted && r.s.Timeout > 0 {
			settings.Timeout.Duration = r.s.Timeout
		}
		r.timeout, _ = settings.TimeoutFor(r.ro)
		return err
	}
	if r.s.Process == "" && (r.s.Stage == stageNew || r.s.Stage == stageAnnounced) {
		r.unstarted = r.s.Stage == stageNew && r.s.Sends == 0 && r.atMostOnce() // a Start would have been announced
		if !r.unstarted && r.s.Elapsed >= r.s.Resend {
			r.s.Sends++
		}
	}
	r.s.Process = r.attempts.processID()
	r.timeout, err = r.settings.TimeoutFor(r.ro)
	if !r.unstarted {
		return nil // an error means that the deadline was shortened after the start
	}
	if err == nil {
		r.s.Kind, r.s.Timeout = r.kind, r.timeout
		err = r.setID()
	}
	return err
}

// atMostOnce tells whether work that may have been started must not be started again.
func (r *run) atMostOnce() bool {
	return r.settings.OnUnknown == OnUnknownFail && r.step != nil && !r.step.Repeatable()
}

// setID sets the step's id in the status. It returns an error if another step of the
// canary has the same id.
func (r *run) setID() error {
	if id := r.settings.ID; id != "" {
		r.s.ID = id
	}
	for _, other := range r.ro.Status.Canary.StepPluginStatuses {
		if s, err := readStatus(other.Status); err == nil && s != nil && s.ID == r.s.ID && s.Index != r.s.Index {
			return fmt.Errorf("id %q: step %d of the Rollout has the same id; give each step its own", r.s.ID, s.Index+1)
		}
	}
	return nil
}

// tick counts the time since the last call against the timeout. It counts as the controller
// does for the progress deadline: after a pause, from when the Rollout goes on. If tick
// counted less, the deadline could pass first, and then the controller makes no more Runs. A
// pause is a transition of the Progressing condition; pods that come and go change only its
// update time.
func (r *run) tick() {
	now := r.now().UTC().Truncate(time.Second)
	if since := r.s.Called; !since.IsZero() {
		if progress := progressing(r.ro); !progress.LastTransitionTime.Time.Before(since) && progress.LastUpdateTime.After(since) {
			since = progress.LastUpdateTime.Time
		}
		r.s.Elapsed += max(now.Sub(since), 0)
	}
	r.s.Called = now
}

// left is what is left of the timeout.
func (r *run) left() time.Duration { return r.timeout - r.s.Elapsed }

func (r *run) isLate() bool { return r.left() <= 0 }

// key is the key of the present attempt.
func (r *run) key() string { return r.s.workKey(r.ro) }

func (r *run) work() Work {
	work := workOf(r.ro, r.pluginName, r.s)
	work.Remaining = max(r.left(), 0)
	return work
}

func workOf(ro *v1alpha1.Rollout, pluginName string, s *status) Work {
	return Work{
		Rollout: ro, PluginName: pluginName, ID: s.ID, Index: s.Index, Preset: s.Preset,
		Key: s.workKey(ro), State: s.State, Outputs: s.Outputs, Earlier: s.outcome(),
	}
}

// start starts the work of an attempt, unless that is under way.
func (r *run) start() types.RpcStepResult {
	work := r.work()
	if !r.attempts.of(work.Key).isStarted() {
		if former := r.attempts.cleanupOf(r.ro.UID, r.s.Index); former != nil {
			if time.Since(former.begun) < retryPatience {
				return r.wait("waiting for the clean-up of the attempt before", 0)
			}
			former.cancel()
		}
		mayRepeat, isEarly := r.mayRepeat(), r.s.Elapsed < r.s.Resend
		work.LookOnly = r.step.Finds() && (!mayRepeat || isEarly)
		switch {
		case r.outdated != nil:
			return r.retry("its preset cannot be used", r.outdated, 0)
		case r.disabled != "":
			_, how := r.cleanUp(r.newCleanup())
			return r.pass(r.disabled + "; " + how)
		case work.LookOnly:
		case !mayRepeat:
			return r.failUnknown(errors.New("the answer to its start was lost"))
		case isEarly:
			return r.wait("its work may have been started, waiting before that is repeated", r.s.Resend-r.s.Elapsed)
		}
	}
	progress, answered, err := r.attempts.operate(work.Key, true, boundOf(r.step), func(ctx context.Context) (Progress, error) { return r.step.Start(ctx, work) })
	switch {
	case !answered:
		return r.unanswered("starting")
	case err != nil:
		return r.startFailed(err)
	}
	return r.found(progress)
}

// startFailed answers for a Start that has returned an error.
func (r *run) startFailed(err error) types.RpcStepResult {
	e := errorOf(err)
	r.count(e.Outcome)
	switch {
	case e.Final:
		return r.fail(err.Error(), max(e.Outcome, r.s.outcome()))
	case e.Outcome == NotDone, r.step.Finds(), r.step.Repeatable():
		return r.retry("starting failed", err, e.RetryAfter)
	case e.Outcome == Done:
		return r.fail(err.Error(), Done)
	case !r.mayRepeat():
		return r.failUnknown(err)
	}
	return r.retry("starting failed", err, max(e.RetryAfter, r.s.Resend-r.s.Elapsed))
}

// count counts a Start that may have been carried out. Those that are left are spread over
// what is left of the timeout.
func (r *run) count(outcome Outcome) {
	if outcome == NotDone {
		r.unstarted = r.nothingSent(r.ro, r.s)
		return
	}
	r.s.Sends++
	if !r.step.Repeatable() {
		r.s.Resend = r.s.Elapsed + r.left()/time.Duration(max(maxSends-r.s.Sends, 0)+1)
	}
	r.attempts.do(r.key(), func(a *attempt) { a.sends.join(r.s.sends) })
}

// mayRepeat tells whether a Start may be made that may be carried out.
func (r *run) mayRepeat() bool {
	switch {
	case r.atMostOnce():
		return r.s.Sends < 1
	case r.step.Repeatable():
		return true
	}
	return r.s.Sends < maxSends
}

// failUnknown fails a step whose work may have been started, and must not be again.
func (r *run) failUnknown(err error) types.RpcStepResult {
	why := "onUnknown: Fail"
	if !r.atMostOnce() {
		why = fmt.Sprintf("%d starts had no answer that tells", r.s.Sends)
	}
	return r.fail(fmt.Sprintf("it is not known whether the work was started (%s): %v", why, err), MayBeDone)
}

// poll asks how running work goes.
func (r *run) poll() types.RpcStepResult {
	work := r.work()
	progress, answered, err := r.attempts.operate(work.Key, false, boundOf(r.step), func(ctx context.Context) (Progress, error) { return r.step.Poll(ctx, work) })
	switch {
	case !answered:
		return r.unanswered("polling")
	case err != nil && errorOf(err).Final:
		return r.fail(err.Error(), Done)
	case err != nil:
		return r.retry("polling failed", err, errorOf(err).RetryAfter)
	}
	return r.found(progress)
}

// unanswered answers for an operation that has not ended.
func (r *run) unanswered(doing string) types.RpcStepResult {
	if r.left() <= -lastPoll {
		return r.timedOut(doing + ": there is no answer")
	}
	return r.waitUntil(doing+", waiting for an answer", minInterval)
}

// found adds what an operation has found to the status, and answers accordingly.
func (r *run) found(p Progress) types.RpcStepResult {
	r.s.Stage, r.s.Failure = stageRunning, ""
	if dropped := r.s.take(p); len(dropped) > 0 {
		r.opts.Events.Warn(r.ro, reasonOutput, r.key(), r.s.event("output %s is left out: an output may have %d bytes, all of a step %d", strings.Join(dropped, ", "), outputLimit, outputsLimit))
	}
	switch {
	case p.Phase == Successful:
		return r.succeed(p.Message)
	case p.Phase == Running && r.isLate():
		return r.timedOut(p.Message)
	case p.Phase == Running:
		r.announce(p)
		return r.wait(p.Message, p.RetryAfter)
	case r.s.Attempt > r.settings.Retries || r.isLate():
		return r.fail(p.Message, p.Outcome)
	case p.Outcome == NotDone:
		return r.tryAgain(p.Message)
	}
	return r.cancelNext(stageRetrying, p.Message, p.Outcome)
}

// tryAgain begins another attempt.
func (r *run) tryAgain(failure string) types.RpcStepResult {
	message := fmt.Sprintf("attempt %d of %d has failed, trying again: %s", r.s.Attempt, r.settings.Retries+1, failure)
	r.announce(Progress{Message: message})
	r.s.Attempt++
	r.s.Stage, r.s.sends, r.s.Outcome, r.s.Failure, r.s.State, r.s.Outputs = stageNew, sends{}, NotDone, "", nil, nil
	return r.wait(message, 0)
}

// announce writes an Event if running work waits for something else than at the last Event.
func (r *run) announce(p Progress) {
	if waiting := hashOf(cmp.Or(p.Waiting, p.Message)); waiting != r.s.Waiting {
		r.s.Waiting = waiting
		r.opts.Events.Note(r.ro, reasonWaiting, r.s.event("%s", p.Message))
	}
}

// retry answers that the step is running and tries something again, and writes a Warning
// Event.
func (r *run) retry(what string, err error, after time.Duration) types.RpcStepResult {
	if r.isLate() {
		return r.timedOut(fmt.Sprintf("%s: %v", what, err))
	}
	r.opts.Events.Warn(r.ro, reasonRetried, r.key()+" "+what, r.s.event("%s, retrying: %v", what, err))
	r.s.Failure = bound.Shorten(fmt.Sprintf("%s: %v", what, err), messageLimit)
	return r.wait(fmt.Sprintf("%s, retrying: %v", what, err), after)
}

// wait answers that the step is running, and asks to be called again after its interval,
// or after retryAfter if that is longer.
func (r *run) wait(message string, retryAfter time.Duration) types.RpcStepResult {
	return r.waitUntil(message, max(r.settings.interval(), retryAfter))
}

func (r *run) waitUntil(message string, after time.Duration) types.RpcStepResult {
	result := r.result(types.PhaseRunning, message)
	result.RequeueAfter = max(min(after, r.left()), minInterval)
	return result
}

func (r *run) result(phase types.StepPhase, message string) types.RpcStepResult {
	return types.RpcStepResult{Phase: phase, Message: bound.Shorten(r.s.label()+": "+message, messageLimit), Status: r.s.write()}
}

// succeed answers that the step has succeeded.
func (r *run) succeed(message string) types.RpcStepResult {
	r.s.Stage = stageDone
	return r.result(types.PhaseSuccessful, message)
}

// pass answers that the step has succeeded, without anything that an abort would undo.
func (r *run) pass(message string) types.RpcStepResult {
	r.s.Stage = stageFailed
	return r.result(types.PhaseSuccessful, message)
}

func (r *run) timedOut(message string) types.RpcStepResult {
	done := r.s.outcome()
	if !r.unstarted {
		done = max(done, MayBeDone)
	}
	return r.fail(fmt.Sprintf("timed out after %s: %s", r.timeout, message), done)
}

// fail answers that the step fails. The next call cancels work that may be running, as the
// controller makes no Abort for a failed step: this one does if no other may come. If nothing
// would cancel it, the step ends now: it holds the canary no longer.
func (r *run) fail(message string, done Outcome) types.RpcStepResult {
	if done == NotDone {
		return r.failed(message)
	}
	if done == MayBeDone && r.step != nil && !r.step.Repeatable() {
		message += fmt.Sprintf("; %s may be left", r.step.Left(r.work()))
	}
	result := r.cancelNext(stageFailing, message, done)
	if c, says := r.step.(Canceller); r.left() < -lastCall || says && !c.Cancels() {
		return r.cancelFailed()
	}
	return result
}

// cancelNext answers that an attempt has failed whose work the next call cancels.
func (r *run) cancelNext(next stage, failure string, done Outcome) types.RpcStepResult {
	r.s.Stage, r.s.Outcome, r.s.Failure, r.s.Waiting = next, done, bound.Shorten(failure, messageLimit), ""
	return r.waitUntil(failure+"; its work is about to be cancelled", minInterval)
}

// cancelFailed cancels the work of an attempt that has failed.
func (r *run) cancelFailed() types.RpcStepResult {
	c := r.newCleanup()
	c.reason = reasonLine(r.s.Failure)
	_, how := r.cleanUp(c)
	failure := r.s.Failure + "; " + how
	if r.s.Stage == stageRetrying && !r.isLate() {
		return r.tryAgain(failure)
	}
	return r.failed(failure)
}

// newCleanup returns a clean-up of the present attempt.
func (r *run) newCleanup() *cleanup {
	return &cleanup{ro: r.ro, pluginName: r.pluginName, s: *r.s, config: r.config, step: r.step, timeout: r.timeout}
}

// failed answers that the step has failed, which aborts the canary unless that is to be
// ignored.
func (r *run) failed(message string) types.RpcStepResult {
	r.s.Stage, r.s.Outcome, r.s.Failure = stageFailed, NotDone, ""
	if r.settings.FailurePolicy == FailurePolicyIgnore {
		r.opts.Events.Warn(r.ro, reasonIgnored, r.s.Key, r.s.event("it has failed, which is ignored (failurePolicy: Ignore): %s", message))
		return r.result(types.PhaseSuccessful, "failed, and ignored: "+message)
	}
	return r.result(types.PhaseFailed, message)
}
