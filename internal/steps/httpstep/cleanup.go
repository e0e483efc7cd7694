package httpstep

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// Cancels tells whether there is a request that stops running work.
func (s *step) Cancels() bool { return s.cancel != nil }

// Cancel stops running work.
func (s *step) Cancel(ctx context.Context, work steps.Work) error {
	return s.cleanUp(ctx, work, s.cancel, work.Key+"-cancel", func(n *session) (bool, error) { return n.catchUp(ctx) })
}

// Undo takes back what finished work has done.
func (s *step) Undo(ctx context.Context, work steps.Work) error {
	return s.cleanUp(ctx, work, s.onAbort, work.Key+"-undo", func(*session) (bool, error) { return true, nil })
}

// cleanUp makes the request of cancel or onAbort, unless first finds that there is nothing for
// it. It does so even while a secret of another request cannot be read: that secret may never
// come back. An error then does not quote the answer, which may repeat the secret.
func (s *step) cleanUp(ctx context.Context, work steps.Work, c *call, key string, first func(*session) (bool, error)) error {
	if c == nil {
		return steps.ErrNoCleanup
	}
	n, err := s.session(ctx, work)
	if err == nil {
		needed, findErr := first(n)
		if !needed && findErr == nil {
			return steps.ErrNoEffect
		}
		if err = findErr; needed {
			var a *answer
			a, err = n.do(ctx, c, key, http.StatusNotFound, http.StatusConflict, http.StatusGone)
			a.release()
			var e *steps.Error
			if findErr != nil && errors.As(err, &e) {
				e.Final, e.Cause = false, fmt.Errorf("%w (looking for what it is about: %w)", e.Cause, findErr)
			}
		}
	}
	if err != nil && n.unread != nil {
		e := &steps.Error{}
		errors.As(err, &e)
		e.Cause = fmt.Errorf("the request has not succeeded, and the answer is not shown, as it may hold what cannot be read: %w", n.unread)
		err = e
	}
	_, err = n.clean(steps.Progress{}, err)
	return err
}

// catchUp looks for outputs that the step does not have yet, as an API may list started work
// only some time later. needed is false if it is not known whether there is any work, and find
// has found none; then catchUp makes no other request.
func (s *session) catchUp(ctx context.Context) (needed bool, err error) {
	outputs := map[string]string{}
	maps.Copy(outputs, s.work.Outputs)
	unknown := s.work.Earlier != steps.Done
	if s.find != nil && (unknown || lacks(outputs, s.find.outputs)) {
		known, found, findErr := s.findWork(ctx)
		if unknown && !found {
			return false, findErr
		}
		maps.Copy(outputs, known)
		err = findErr
	}
	if s.poll != nil && lacks(outputs, s.poll.outputs) {
		a, pollErr := s.do(ctx, &s.poll.call, "", s.poll.accept...)
		if pollErr == nil {
			var known map[string]string
			known, pollErr = s.evaluate(ctx, s.poll.outputs, a, true)
			maps.Copy(outputs, known)
		}
		a.release()
		if err == nil {
			err = pollErr
		}
	}
	s.setOutputs(outputs)
	if err == nil && (s.find != nil && lacks(outputs, s.find.outputs) || s.poll != nil && lacks(outputs, s.poll.outputs)) {
		err = errors.New("some outputs have no value yet")
	}
	return true, err
}

// lacks tells whether one of the outputs has no value yet.
func lacks(values map[string]string, outputs []output) bool {
	for _, o := range outputs {
		if values[o.name] == "" {
			return true
		}
	}
	return false
}
