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
)

const (
	// cleanupBackoff is the first wait after a Cancel or Undo that has not succeeded. It
	// doubles, up to cleanupBackoffMax.
	cleanupBackoff    = time.Second
	cleanupBackoffMax = 30 * time.Second
)

// cleanup is the work of a step that is cancelled or undone. The controller asks for that
// once, so it goes on in the background until the step's timeout has passed once more.
type cleanup struct {
	ro         *v1alpha1.Rollout
	pluginName string
	s          status
	config     json.RawMessage
	// step is nil until the configuration has been read.
	step    Step
	timeout time.Duration
	// undoes has work be undone that turns out to have succeeded.
	undoes bool
}

// verbs are "cancel" and "undo" for people.
func (c cleanup) verbs() (verb, done string) {
	if c.s.Stage == stageDone {
		return "undo", "undone"
	}
	return "cancel", "cancelled"
}

// cleanups are those that are under way, by the key of their attempt: a second call for one
// waits for the first.
type cleanups struct {
	mu       sync.Mutex
	underWay map[string]*cleanupUnderWay
}

type cleanupUnderWay struct {
	// done is closed when the first attempt has ended, with its error in err.
	done chan struct{}
	err  error
}

// cleanUp answers an Abort, which undoes finished work, or a Terminate.
func (p *Plugin) cleanUp(ro *v1alpha1.Rollout, call *types.RpcStepContext, undoes bool) types.RpcStepResult {
	s, err := readStatus(call.Status)
	switch {
	case err != nil:
		return types.RpcStepResult{Phase: types.PhaseFailed, Message: err.Error()}
	case p.opts.Problem != nil && s != nil:
		return types.RpcStepResult{Phase: types.PhaseFailed, Message: shorten("the work is left as it is: "+p.opts.Problem.Error(), messageLimit)}
	case s == nil || s.Stage == stageNew || s.Stage == stageFailed || s.Stage == stageDone && !undoes:
		return types.RpcStepResult{Phase: types.PhaseSuccessful, Message: "there is nothing to clean up"}
	}
	c := cleanup{ro: ro, pluginName: call.PluginName, s: *s, config: call.Config, timeout: defaultTimeout, undoes: undoes}
	ctx, cancel := context.WithTimeout(context.Background(), callWait)
	defer cancel()
	if step, err := p.step(ctx, call.Config, true); err == nil {
		c.step = step
		if timeout, err := step.Settings().TimeoutFor(ro); err == nil {
			c.timeout = timeout
		}
	}
	ok, said := p.cleanUpWork(c)
	phase := types.PhaseFailed
	if ok {
		phase = types.PhaseSuccessful
	}
	return types.RpcStepResult{Phase: phase, Message: shorten(said, messageLimit)}
}

// cleanUpWork begins to clean up, and waits for a few seconds. It returns whether that has
// succeeded, and how it went, for people.
func (p *Plugin) cleanUpWork(c cleanup) (ok bool, said string) {
	verb, done := c.verbs()
	key := verb + " " + c.s.key()
	p.cleanups.mu.Lock()
	underWay := p.cleanups.underWay[key]
	if underWay == nil {
		underWay = &cleanupUnderWay{done: make(chan struct{})}
		if p.cleanups.underWay == nil {
			p.cleanups.underWay = map[string]*cleanupUnderWay{}
		}
		p.cleanups.underWay[key] = underWay
		go p.finish(c, key, underWay)
	}
	p.cleanups.mu.Unlock()
	select {
	case <-underWay.done:
		switch {
		case underWay.err == nil:
			return true, "the work was " + done
		case errors.Is(underWay.err, ErrNoCleanup):
			return true, fmt.Sprintf("the work is left as it is: the step has nothing that would %s it", verb)
		}
		return false, fmt.Sprintf("the work is not %s yet, which is tried for %s: %v", done, c.timeout, underWay.err)
	case <-time.After(p.operations.wait):
		return false, fmt.Sprintf("no answer yet to %s the work, which is tried for %s", verb, c.timeout)
	}
}

// finish cleans up until that succeeds or its time is over, and then says what is left.
func (p *Plugin) finish(c cleanup, key string, underWay *cleanupUnderWay) {
	defer func() {
		p.cleanups.mu.Lock()
		defer p.cleanups.mu.Unlock()
		delete(p.cleanups.underWay, key)
	}()
	deadline := time.Now().Add(c.timeout)
	// Start or Poll may be under way.
	if progress, there := p.operations.end(c.s.key()); there && c.s.Stage != stageDone {
		c.s.take(progress)
		switch {
		case progress.Phase == Running, progress.Phase == Failed && progress.MayRun:
			c.s.Stage = stageRunning
		case progress.Phase == Successful && c.undoes:
			c.s.Stage = stageDone
		default:
			close(underWay.done) // it has ended by itself
			return
		}
	}
	first := true
	for backoff := cleanupBackoff; ; backoff = min(2*backoff, cleanupBackoffMax) {
		err := p.cleanUpOnce(&c)
		if first {
			underWay.err = err
			close(underWay.done)
			first = false
		}
		if err == nil || errors.Is(err, ErrNoCleanup) {
			return
		}
		if time.Now().Add(backoff).After(deadline) {
			verb, _ := c.verbs()
			left := "its work"
			if c.step != nil {
				left = c.step.Left(workOf(c.ro, c.pluginName, &c.s))
			}
			p.opts.Events.Warn(c.ro, reasonLeft, key, fmt.Sprintf("step %d (%s): to %s the work has not succeeded within %s, %s is left: %v",
				c.s.Index+1, c.s.ID, verb, c.timeout, left, err))
			return
		}
		time.Sleep(backoff)
	}
}

func (p *Plugin) cleanUpOnce(c *cleanup) error {
	_, err := guarded(p.opts.Logger, func() (Progress, error) {
		ctx, cancel := context.WithTimeout(context.Background(), operationTimeout)
		defer cancel()
		if c.step == nil {
			step, err := p.step(ctx, c.config, true)
			if err != nil {
				return Progress{}, fmt.Errorf("the step's configuration cannot be read: %w", err)
			}
			c.step = step
		}
		work := workOf(c.ro, c.pluginName, &c.s)
		if c.s.Stage == stageDone {
			return Progress{}, c.step.Undo(ctx, work)
		}
		work.Unknown = c.s.Stage == stageStarting
		return Progress{}, c.step.Cancel(ctx, work)
	})
	return err
}
