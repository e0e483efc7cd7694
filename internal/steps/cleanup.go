package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	k8stypes "k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/bound"
)

const (
	// cleanupBackoff is the first wait after a Cancel or Undo that has not succeeded. It
	// doubles, up to cleanupBackoffMax.
	cleanupBackoff    = time.Second
	cleanupBackoffMax = 30 * time.Second
	// maxCleanups is how many clean-ups of one Rollout may be under way. One more cancels
	// the oldest.
	maxCleanups = 20
	// slowFor is how long the calls of a Rollout do not wait for its clean-ups after one
	// has not answered in time: on an abort, the controller makes a call for each step,
	// one after the other.
	slowFor = 30 * time.Second
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
}

// verbs returns the verb "cancel" or "undo", and its participle, for messages.
func (c *cleanup) verbs() (verb, done string) {
	if c.s.Stage == stageDone {
		return "undo", "undone"
	}
	return "cancel", "cancelled"
}

// cleanups holds the clean-ups that are under way, by verb and key of the attempt: a
// second call for the same clean-up waits for the first.
type cleanups struct {
	mu       sync.Mutex
	underWay map[string]*cleanupUnderWay
	// slow holds when a clean-up of a Rollout last did not answer in time.
	slow map[k8stypes.UID]time.Time
}

type cleanupUnderWay struct {
	rollout k8stypes.UID
	index   int32
	begun   time.Time
	cancel  context.CancelFunc
	// ends is true when the clean-up has been told to end.
	ends bool
	// done is closed when the first attempt has ended. Then ok tells whether it has
	// succeeded, and said describes it for people.
	done chan struct{}
	ok   bool
	said string
}

// add returns the clean-up with a key, and whether it is new. If the Rollout has too many,
// add cancels the oldest.
func (c *cleanups) add(key string, rollout k8stypes.UID, index int32, cancel context.CancelFunc) (underWay *cleanupUnderWay, isNew bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if underWay := c.underWay[key]; underWay != nil {
		return underWay, false
	}
	var oldest *cleanupUnderWay
	count := 0
	for _, other := range c.underWay {
		if other.rollout == rollout && !other.ends {
			count++
			if oldest == nil || other.begun.Before(oldest.begun) {
				oldest = other
			}
		}
	}
	if count >= maxCleanups {
		oldest.ends = true
		oldest.cancel()
	}
	underWay = &cleanupUnderWay{rollout: rollout, index: index, begun: time.Now(), cancel: cancel, done: make(chan struct{})}
	if c.underWay == nil {
		c.underWay = map[string]*cleanupUnderWay{}
	}
	c.underWay[key] = underWay
	return underWay, true
}

func (c *cleanups) remove(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.underWay, key)
}

// of returns a clean-up of a Rollout's step that is under way; nil if there is none.
func (c *cleanups) of(rollout k8stypes.UID, index int32) *cleanupUnderWay {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, underWay := range c.underWay {
		if underWay.rollout == rollout && underWay.index == index {
			return underWay
		}
	}
	return nil
}

// isSlow tells whether a clean-up of a Rollout has lately not answered in time: waiting
// for another one is not worth while.
func (c *cleanups) isSlow(rollout k8stypes.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.slow[rollout]) < slowFor
}

func (c *cleanups) noteSlow(rollout k8stypes.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.slow == nil {
		c.slow = map[k8stypes.UID]time.Time{}
	}
	for other, at := range c.slow {
		if time.Since(at) >= slowFor {
			delete(c.slow, other)
		}
	}
	c.slow[rollout] = time.Now()
}

// cleanUp answers an Abort, which undoes finished work, or a Terminate.
func (p *Plugin) cleanUp(ro *v1alpha1.Rollout, call *types.RpcStepContext, undoes bool) types.RpcStepResult {
	s, err := readStatus(call.Status)
	nothing := types.RpcStepResult{Phase: types.PhaseSuccessful, Message: "there is nothing to clean up"}
	switch {
	case err != nil:
		return types.RpcStepResult{Phase: types.PhaseFailed, Message: err.Error()}
	case s == nil:
		return nothing
	}
	ended := s.Stage == stageFailed || s.Stage == stageDone && !undoes || p.notStarted(ro, s)
	if undoes {
		p.aborted.note(s.workKey(ro), struct{}{})
	}
	if ended {
		return nothing
	}
	c := cleanup{ro: ro, pluginName: call.PluginName, s: *s, config: call.Config, undoes: undoes}
	if problem := p.problemWith(s); problem != nil {
		p.warnOfLeft(&c, s.workKey(ro), "its work is left as it is: "+problem.Error())
		return types.RpcStepResult{Phase: types.PhaseFailed, Message: bound.Shorten("the work is left as it is: "+problem.Error(), messageLimit)}
	}
	c.timeout, _ = Settings{}.TimeoutFor(ro)
	ctx, cancel := context.WithTimeout(context.Background(), callWait)
	defer cancel()
	if step, _, err := p.step(ctx, s.workKey(ro), call.Config, true); err == nil {
		if s.Stage == stageNew && step.Settings().OnUnknown == OnUnknownFail {
			return nothing // such a step announces its Start before it makes it
		}
		c.step = step
		c.timeout, _ = step.Settings().TimeoutFor(ro)
	}
	ok, said := p.cleanUpWork(c)
	phase := types.PhaseFailed
	if ok {
		phase = types.PhaseSuccessful
	}
	return types.RpcStepResult{Phase: phase, Message: bound.Shorten(said, messageLimit)}
}

// cleanUpWork begins a clean-up, or joins the one under way, and waits for its first
// attempt for a moment. It returns whether that attempt has succeeded, and a message for
// people.
func (p *Plugin) cleanUpWork(c cleanup) (ok bool, said string) {
	verb, _ := c.verbs()
	key := verb + " " + c.s.workKey(c.ro)
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	underWay, isNew := p.cleanups.add(key, c.ro.UID, c.s.Index, cancel)
	if isNew {
		go func() {
			defer cancel()
			defer p.cleanups.remove(key)
			p.finish(ctx, &c, key, underWay)
		}()
	} else {
		cancel()
	}
	if !p.operations.waitFor(underWay.done, isNew && !p.cleanups.isSlow(c.ro.UID)) {
		p.cleanups.noteSlow(c.ro.UID)
		return false, fmt.Sprintf("no answer yet to %s the work, which is tried for %s", verb, c.timeout)
	}
	return underWay.ok, underWay.said
}

// finish cleans up until that succeeds. If it gives up, as ctx has ended or an operation
// hangs, it reports in an Event what is left. It also asks whether the work has ended
// meanwhile, until there is an answer: work that has succeeded has to be undone, not
// cancelled.
func (p *Plugin) finish(ctx context.Context, c *cleanup, key string, underWay *cleanupUnderWay) {
	defer rolloutsplugin.LogPanic(p.opts.Logger, "cleaning a step up")
	once := sync.OnceFunc(func() { close(underWay.done) })
	defer once()
	var ended, looked bool
	for backoff := cleanupBackoff; ; backoff = min(2*backoff, cleanupBackoffMax) {
		if !looked {
			if ended, looked = p.lookOnce(c); ended {
				underWay.ok, underWay.said = true, "the work has ended by itself"
				return
			}
		}
		err := p.cleanUpOnce(c)
		isOver := err == nil || errors.Is(err, ErrNoCleanup) || errors.Is(err, ErrNoEffect)
		select {
		case <-underWay.done:
		default:
			underWay.ok, underWay.said = isOver, c.describe(err)
			once()
		}
		switch {
		case isOver && looked:
			return
		case isOver:
			err = errors.New("the outside does not say whether it had succeeded before it was cancelled")
		case errors.Is(err, errHung):
			p.sayLeft(c, key, underWay.begun, err)
			return
		}
		select {
		case <-time.After(backoff):
			continue
		case <-ctx.Done():
		}
		p.sayLeft(c, key, underWay.begun, err)
		return
	}
}

// describe says how an attempt to clean up went.
func (c *cleanup) describe(err error) string {
	verb, done := c.verbs()
	switch {
	case err == nil:
		return "the work was " + done
	case errors.Is(err, ErrNoEffect):
		return "there is nothing to " + verb
	case errors.Is(err, ErrNoCleanup):
		return fmt.Sprintf("the work is left as it is: the step has nothing that would %s it", verb)
	}
	return fmt.Sprintf("the work is not %s yet, which is tried for %s: %v", done, c.timeout, err)
}

// lookOnce updates the status of work before its clean-up: a Start or a Poll may be under
// way, or the work may have ended since the last Poll. ended is true when there is nothing
// to clean up, looked is false when lookOnce has to be called again.
func (p *Plugin) lookOnce(c *cleanup) (ended, looked bool) {
	if c.s.Stage == stageDone {
		return false, true
	}
	key := c.s.workKey(c.ro)
	starting := c.s.Stage != stageRunning
	progress, there := p.operations.end(key, starting)
	if there && starting && c.undoes && progress.Phase == Running { // as of the Start: poll now
		c.s.take(progress)
		c.s.Stage, starting, there = stageRunning, false, false
	}
	if !there && !starting && c.undoes {
		var err error
		progress, err = p.once(c, func(ctx context.Context, work Work) (Progress, error) { return c.step.Poll(ctx, work) })
		there = err == nil
	}
	if !there {
		return false, starting || !c.undoes
	}
	c.s.take(progress)
	switch {
	case progress.Phase == Successful && c.undoes:
		c.s.Stage = stageDone
	case progress.Phase == Successful, progress.Phase == Failed && starting && !progress.MayRun:
		return true, true
	default: // failed work may leave something behind, too
		c.s.Stage = stageRunning
	}
	return false, true
}

func (p *Plugin) cleanUpOnce(c *cleanup) error {
	_, err := p.once(c, func(ctx context.Context, work Work) (Progress, error) {
		if c.s.Stage == stageDone {
			return Progress{}, c.step.Undo(ctx, work)
		}
		work.Unknown = c.s.Stage != stageRunning
		return Progress{}, c.step.Cancel(ctx, work)
	})
	return err
}

// once runs one operation of a clean-up. If the operation ignores the end of its context,
// once leaves it running and returns errHung.
func (p *Plugin) once(c *cleanup, operation func(context.Context, Work) (Progress, error)) (Progress, error) {
	ctx, cancel := context.WithTimeout(context.Background(), operationTimeout)
	defer cancel()
	if c.step == nil {
		step, _, err := p.step(ctx, c.s.workKey(c.ro), c.config, true)
		if err != nil {
			return Progress{}, fmt.Errorf("the step's configuration cannot be read: %w", err)
		}
		c.step = step
	}
	var progress Progress
	var err error
	done := make(chan struct{})
	work := workOf(c.ro, c.pluginName, &c.s)
	go func() {
		defer close(done)
		progress, err = guarded(p.opts.Logger, func() (Progress, error) { return operation(ctx, work) })
	}()
	select {
	case <-done:
		return progress, err
	case <-time.After(hungAfter):
		return Progress{}, errHung
	}
}

// sayLeft reports in an Event what a clean-up that has not succeeded leaves behind.
func (p *Plugin) sayLeft(c *cleanup, key string, begun time.Time, err error) {
	verb, _ := c.verbs()
	left := "its work"
	if c.step != nil {
		left = c.step.Left(workOf(c.ro, c.pluginName, &c.s))
	}
	p.warnOfLeft(c, key, fmt.Sprintf("to %s the work has not succeeded within %s, %s is left: %v", verb, time.Since(begun).Round(time.Second), left, err))
}

func (p *Plugin) warnOfLeft(c *cleanup, key, message string) {
	p.opts.Events.Warn(c.ro, reasonLeft, key, fmt.Sprintf("step %d (%s): %s", c.s.Index+1, c.s.ID, message))
}
