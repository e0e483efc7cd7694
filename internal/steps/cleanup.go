package steps

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/bound"
)

const (
	// cleanupBackoff is the first wait after a Cancel or Undo that has not succeeded. It
	// doubles, up to cleanupBackoffMax.
	cleanupBackoff    = time.Second
	cleanupBackoffMax = 30 * time.Second
	// resendWait is how long a clean-up waits at most before it repeats what may have been
	// carried out.
	resendWait = time.Minute
	// maxCleanups is how many clean-ups of one Rollout may be under way. One more ends the
	// oldest.
	maxCleanups = 20
	// retryPatience is how long the step of a retried canary waits for the clean-up of the
	// previous canary, which could take back what the step is about to do.
	retryPatience = 2 * time.Minute
)

// cleanup cancels or undoes the work of a step. The controller asks for this only once, so
// the clean-up goes on in the background, for as long as the step's timeout.
type cleanup struct {
	ro         *v1alpha1.Rollout
	pluginName string
	s          status
	config     json.RawMessage
	// step is nil until the configuration has been read.
	step    Step
	timeout time.Duration
	// undoes is true for an Abort: work that turns out to have succeeded is then undone.
	undoes bool
	// reason is why the canary was aborted or the step has failed; empty if that is not known.
	reason string
	begun  time.Time
	cancel context.CancelFunc
	// tried is closed when the first attempt has ended.
	tried chan struct{}

	// The mutex of attempts guards these. over is true once the clean-up has ended, and ok if
	// it has succeeded. said describes for people how it went, and left names what it is about.
	// goesOn is true if a call has answered that an Event tells how it ends.
	over, ok, goesOn bool
	said, left       string
}

// verbs returns the forms of "cancel" or "undo" for messages.
func (c *cleanup) verbs() (do, doing, done string) {
	if c.s.Stage == stageDone {
		return "undo", "undoing", "undone"
	}
	return "cancel", "cancelling", "cancelled"
}

// answerCleanup answers an Abort, which undoes finished work, or a Terminate.
func (p *Plugin) answerCleanup(ro *v1alpha1.Rollout, call *types.RpcStepContext, undoes bool) types.RpcStepResult {
	s, err := readStatus(call.Status)
	nothing := types.RpcStepResult{Phase: types.PhaseSuccessful, Message: "there is nothing to clean up"}
	switch {
	case err != nil:
		return types.RpcStepResult{Phase: types.PhaseFailed, Message: err.Error()}
	case s == nil:
		return nothing
	}
	key := s.workKey(ro)
	s.join(p.attempts.of(key).sends)
	hasEnded := s.Stage == stageFailed || s.Stage == stageDone && !undoes || p.notStarted(ro, s)
	if undoes {
		p.attempts.do(key, func(a *attempt) { a.aborted = true })
	}
	if hasEnded {
		return nothing
	}
	isFailing := s.Stage == stageFailing || s.Stage == stageRetrying
	c := &cleanup{ro: ro, pluginName: call.PluginName, config: call.Config, undoes: undoes && !isFailing}
	if undoes {
		c.reason = abortReason(ro)
	}
	if isFailing {
		c.reason = cmp.Or(c.reason, reasonLine(s.Failure))
	}
	settings := Settings{Timeout: metav1.Duration{Duration: s.Timeout}}
	ctx, cancel := context.WithTimeout(context.Background(), p.opts.CallWait)
	defer cancel()
	if p.opts.Problem == nil {
		if now, err := p.readKind(ctx, ro, call.PluginName, s, call.Config, true); err == nil {
			r := run{configured: now}
			if s.Stage == stageNew && s.Sends == 0 && !p.isKnown(s) && r.atMostOnce() {
				return nothing // such a step announces its Start before it makes it
			}
			c.step, settings = now.step, now.settings
		}
	}
	if (s.Stage == stageNew || s.Stage == stageAnnounced) && !p.isKnown(s) {
		s.Sends++
	}
	c.s = *s
	c.timeout, _ = settings.TimeoutFor(ro)
	ok, said := p.cleanUp(c)
	phase := types.PhaseFailed
	if ok {
		phase = types.PhaseSuccessful
	}
	return types.RpcStepResult{Phase: phase, Message: bound.Shorten(s.label()+": "+said, messageLimit)}
}

// readKind reads the configuration of an attempt. It is an error if one that has begun has
// another kind now.
func (p *Plugin) readKind(ctx context.Context, ro *v1alpha1.Rollout, pluginName string, s *status, config json.RawMessage, begun bool) (configured, error) {
	now, err := p.read(ctx, ro, pluginName, s.workKey(ro), config, begun)
	if err == nil && begun && s.Kind != "" && s.Kind != now.kind {
		now.step = nil
		err = &Error{Final: true, Cause: fmt.Errorf("the step was begun as one of kind %q, and is one of kind %q now: change that back, or abort the canary", s.Kind, now.kind)}
	}
	return now, err
}

// cleanUp begins a clean-up, or joins the one that was begun for the same attempt, and waits
// for its first attempt for a moment. ok is false if it has failed, and said is for people.
func (p *Plugin) cleanUp(c *cleanup) (ok bool, said string) {
	key := c.s.workKey(c.ro)
	if p.opts.Problem != nil {
		said = fmt.Sprintf("its work is left as it is: %v", p.opts.Problem)
		p.warnOfLeft(c, key, said)
		return false, said
	}
	_, doing, _ := c.verbs()
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	c.begun, c.cancel, c.tried, c.left = time.Now(), cancel, make(chan struct{}), "its work"
	begun, isNew, mayWait := p.attempts.addCleanup(key, c)
	if isNew {
		go p.finish(ctx, key, c)
	} else {
		cancel()
	}
	p.attempts.waitFor(begun.tried, isNew && mayWait)
	p.attempts.mu.Lock()
	defer p.attempts.mu.Unlock()
	if begun.over {
		return begun.ok, begun.said
	}
	begun.goesOn = true
	if begun.said != "" {
		return true, begun.said
	}
	return true, fmt.Sprintf("%s the work goes on, for %s at most: an Event tells how it ends", doing, c.timeout)
}

// addCleanup returns the clean-up of an attempt that is under way or has succeeded, else
// adds one. If the Rollout has too many, it ends the oldest. mayWait is false while another
// one of the Rollout has not answered: on an abort, the controller makes a call for each
// step, one after the other.
func (s *attempts) addCleanup(key string, c *cleanup) (begun *cleanup, isNew, mayWait bool) {
	s.do(key, func(own *attempt) {
		if begun = own.cleanup; begun != nil {
			return
		}
		mayWait = true
		var oldest *cleanup
		count := 0
		for _, a := range s.all {
			other := a.cleanup
			if other == nil || other.over || other.ro.UID != c.ro.UID {
				continue
			}
			mayWait = mayWait && isClosed(other.tried)
			if count++; oldest == nil || other.begun.Before(oldest.begun) {
				oldest = other
			}
		}
		if count >= maxCleanups {
			oldest.cancel()
		}
		own.cleanup, begun, isNew = c, c, true
	})
	return begun, isNew, mayWait
}

// finish cleans up until that succeeds, or until it gives up: ctx has ended, an operation
// hangs, or may not be repeated. An Event tells how it ends. It also asks whether the work
// has ended meanwhile, until there is an answer: work that has succeeded has to be undone,
// not cancelled.
func (p *Plugin) finish(ctx context.Context, key string, c *cleanup) {
	defer p.attempts.do(key, func(a *attempt) {
		if c.over = true; a.cleanup == c { // after a panic
			a.cleanup = nil
		}
	})
	defer c.cancel()
	defer rolloutsplugin.LogPanic(p.opts.Logger, "cleaning a step up")
	once := sync.OnceFunc(func() { close(c.tried) })
	defer once()
	var isKnown, isPending, isCancelled bool
	var err error
	sends := 0
	for backoff := cleanupBackoff; ; backoff = min(2*backoff, cleanupBackoffMax) {
		if !isKnown {
			was := isPending
			var hasEnded bool
			hasEnded, isKnown, isPending = p.catchUp(c)
			switch {
			case hasEnded && !isCancelled:
				p.conclude(c, key, true, "there is nothing to clean up: the work has ended, or was not started")
				return
			case !hasEnded && was && !isPending:
				isCancelled = false // what was starting may have begun after it was cancelled
			}
		}
		if c.s.Stage == stageDone || !isCancelled {
			err = p.cleanUpOnce(c)
		}
		hasSucceeded := err == nil || errors.Is(err, ErrNoCleanup) || errors.Is(err, ErrNoEffect)
		isCancelled = isCancelled || hasSucceeded
		if hasSucceeded && isKnown {
			p.conclude(c, key, true, c.describe(err))
			return
		}
		e := errorOf(err)
		pause, problem := max(backoff, e.RetryAfter), err
		if e.Outcome != NotDone {
			sends++
			pause = max(pause, min(c.timeout/3, resendWait))
		}
		if hasSucceeded {
			problem = errors.New("no answer tells whether it had succeeded before it was cancelled")
		}
		_, doing, _ := c.verbs()
		if !errors.Is(err, errHung) && !e.Final && sends < maxSends {
			how := "has failed, retrying for %s"
			if e.UnderWay {
				how = "goes on, for %s at most"
			}
			p.attempts.do(key, func(*attempt) {
				c.said = fmt.Sprintf("%s the work "+how+": %v; an Event tells how it ends", doing, c.timeout, problem)
			})
			once()
			select {
			case <-time.After(pause):
				isKnown = isKnown && c.s.Stage == stageDone // the work may end during the pause
				continue
			case <-ctx.Done():
			}
		}
		p.conclude(c, key, false, fmt.Sprintf("%s the work has failed after %s, %s is left: %v", doing, time.Since(c.begun).Round(time.Second), c.left, problem))
		return
	}
}

// conclude ends a clean-up, and tells how it has ended.
func (p *Plugin) conclude(c *cleanup, key string, ok bool, said string) {
	var goesOn bool
	p.attempts.do(key, func(a *attempt) {
		c.over, c.ok, c.said, goesOn = true, ok, said, c.goesOn
		a.cleanup, a.op = nil, nil
		if ok { // another call does not repeat it
			a.cleanup = &cleanup{over: true, ok: true, said: said, tried: c.tried}
		}
	})
	_, _, done := c.verbs()
	switch {
	case !ok:
		p.warnOfLeft(c, key, said)
	case goesOn || said == "the work was "+done:
		p.opts.Events.Note(c.ro, reasonCleanedUp, c.s.event("%s", said))
	}
}

// describe says how a clean-up has ended that has nothing more to do.
func (c *cleanup) describe(err error) string {
	do, _, done := c.verbs()
	switch {
	case errors.Is(err, ErrNoEffect):
		return "there is nothing to " + do
	case errors.Is(err, ErrNoCleanup):
		return fmt.Sprintf("the work is left as it is: the step has nothing that would %s it", do)
	}
	return "the work was " + done
}

// catchUp updates the status of work before its clean-up: a Start or a Poll may be under
// way, or the work may have ended since the last Poll. hasEnded is true when there is nothing
// to clean up, and isKnown is false when catchUp has to be called again: there is no answer,
// or a Start isPending.
func (p *Plugin) catchUp(c *cleanup) (hasEnded, isKnown, isPending bool) {
	if c.s.Stage == stageDone {
		return false, true, false
	}
	var progress Progress
	var hasProgress bool
	op := p.attempts.end(c.s.workKey(c.ro))
	isStart := op != nil && op.isStart
	switch {
	case op == nil:
	case !isClosed(op.done):
		if isStart {
			return false, false, true
		}
	case op.err == nil:
		progress, hasProgress = op.progress, true
	case isStart && OutcomeOf(op.err) != NotDone:
		c.s.Sends++
	case isStart && c.s.Sends == 0 && c.s.outcome() != Done:
		return true, true, false
	}
	if c.undoes && (hasProgress && isStart && progress.Phase == Running || !hasProgress && c.s.Stage == stageRunning) {
		if hasProgress {
			c.s.take(progress) // which is as of the Start
			c.s.Stage = stageRunning
		}
		var err error
		progress, err = p.once(c, func(ctx context.Context, work Work) (Progress, error) { return c.step.Poll(ctx, work) })
		if err != nil {
			return false, false, false
		}
		hasProgress, isStart = true, false
	}
	if !hasProgress {
		return false, true, false
	}
	c.s.take(progress)
	switch {
	case progress.Phase == Successful && c.undoes:
		c.s.Stage = stageDone
	case progress.Phase == Successful, progress.Phase == Failed && isStart && progress.Outcome == NotDone:
		return true, true, false
	case progress.Phase == Failed && isStart: // and Outcome is in the status
	default: // failed work may leave something behind, too
		c.s.Stage = stageRunning
	}
	return false, true, false
}

func (p *Plugin) cleanUpOnce(c *cleanup) error {
	_, err := p.once(c, func(ctx context.Context, work Work) (Progress, error) {
		if c.s.Stage == stageDone {
			return Progress{Phase: Successful}, c.step.Undo(ctx, work)
		}
		work.Earlier = max(work.Earlier, MayBeDone)
		return Progress{Phase: Successful}, c.step.Cancel(ctx, work)
	})
	return err
}

// once runs one operation of a clean-up. If the operation ignores the end of its context,
// once leaves it running and returns errHung.
func (p *Plugin) once(c *cleanup, operation func(context.Context, Work) (Progress, error)) (Progress, error) {
	if c.step == nil {
		ctx, cancel := context.WithTimeout(context.Background(), operationTimeout)
		defer cancel()
		now, err := p.readKind(ctx, c.ro, c.pluginName, &c.s, c.config, true)
		if err != nil {
			return Progress{}, fmt.Errorf("the step's configuration cannot be used: %w", err)
		}
		c.step = now.step
	}
	work, bound := workOf(c.ro, c.pluginName, &c.s), boundOf(c.step)
	work.AbortReason = c.reason
	left := c.step.Left(work)
	p.attempts.do(work.Key, func(*attempt) { c.left = left })
	op := p.attempts.begin(bound, func(ctx context.Context) (Progress, error) { return operation(ctx, work) })
	select {
	case <-op.done:
		return op.progress, op.err
	case <-time.After(bound + hungAfter):
		return Progress{}, errHung
	}
}

func (p *Plugin) warnOfLeft(c *cleanup, key, message string) {
	p.opts.Events.Warn(c.ro, reasonLeft, key, c.s.event("%s", message))
}

// Close reports the clean-ups that the end of the process cuts off: the next process gets no
// call for them.
func (p *Plugin) Close() {
	p.attempts.mu.Lock()
	defer p.attempts.mu.Unlock()
	for key, a := range p.attempts.all {
		if c := a.cleanup; c != nil && !c.over {
			p.warnOfLeft(c, key, fmt.Sprintf("the plugin ends before its clean-up has, %s may be left", c.left))
		}
	}
}
