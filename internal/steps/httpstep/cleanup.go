package httpstep

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/outbound"
)

// refusedState is the State of an attempt whose first known request was refused. The
// outside system may have refused it because it had carried out the same request before:
// one of a controller that ended before it could record the request.
var refusedState = json.RawMessage(`{"refused":true}`)

// Cancel stops running work.
func (s *step) Cancel(ctx context.Context, work steps.Work) error {
	if s.cancel == nil {
		return steps.ErrNoCleanup
	}
	return s.tidy(ctx, work, func(n *session) error {
		found, looked := n.catchUp(ctx)
		if work.Unknown && s.find != nil && !found {
			return looked
		}
		err := n.cleanUp(ctx, s.cancel, work.Key+"-cancel")
		var refused *outbound.RefusedError
		if errors.As(err, &refused) && bytes.Equal(work.State, refusedState) {
			return steps.ErrNoEffect // cancel was refused as request was
		}
		if err != nil && looked != nil {
			err = fmt.Errorf("%w (looking for what it is about: %w)", err, looked)
		}
		return err
	})
}

// Undo takes back what finished work has done.
func (s *step) Undo(ctx context.Context, work steps.Work) error {
	if s.onAbort == nil {
		return steps.ErrNoCleanup
	}
	return s.tidy(ctx, work, func(n *session) error { return n.cleanUp(ctx, s.onAbort, work.Key+"-undo") })
}

// tidy carries out a Cancel or an Undo, even while a secret of another request cannot be
// read: that secret may never come back. An error then does not quote the answer, which
// may repeat the secret.
func (s *step) tidy(ctx context.Context, work steps.Work, operation func(*session) error) error {
	n, err := s.session(ctx, work)
	if err == nil {
		err = operation(n)
	}
	if err != nil && n.unread != nil {
		err = fmt.Errorf("the request has not succeeded, and the answer is not shown, as it may hold what cannot be read: %w", n.unread)
	}
	_, err = n.clean(steps.Progress{}, err)
	return err
}

// catchUp looks for outputs that the step does not have yet, as an outside system may list
// started work only some time later. found is true when find has found the work. If it has
// not, and it is not known whether there is any work, catchUp makes no other request.
func (s *session) catchUp(ctx context.Context) (found bool, err error) {
	outputs := maps.Clone(s.work.Outputs)
	if outputs == nil {
		outputs = map[string]string{}
	}
	if s.find != nil && (s.work.Unknown || lacks(outputs, s.find.outputs)) {
		var known map[string]string
		known, found, err = s.look(ctx)
		if s.work.Unknown && (err != nil || !found) {
			return false, err
		}
		if err == nil {
			maps.Copy(outputs, known)
		}
	}
	if s.poll != nil && lacks(outputs, s.poll.outputs) {
		known, asked := s.pollOutputs(ctx)
		maps.Copy(outputs, known)
		if err == nil {
			err = asked
		}
	}
	s.setOutputs(outputs)
	return found, err
}

// pollOutputs makes a poll, and returns the outputs that its answer has.
func (s *session) pollOutputs(ctx context.Context) (map[string]string, error) {
	a, err := s.send(ctx, &s.poll.call, "")
	defer s.kind.read()()
	if err == nil {
		err = s.judge(a, s.poll.accept...)
	}
	if err != nil {
		return nil, err
	}
	return s.evaluate(s.poll.outputs, a, true)
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

// withoutEmptyOutputs returns the scope of the URL of a clean-up, without outputs that
// have no value. Such an output would leave nothing between two slashes of a path, and the
// answer 404 for that path would look as if nothing were left to clean up.
func (s *session) withoutEmptyOutputs() map[string]any {
	outputs, _ := s.scope["outputs"].(map[string]any)
	outputs = maps.Clone(outputs)
	maps.DeleteFunc(outputs, func(_ string, value any) bool { return value == "" })
	scope := maps.Clone(s.scope)
	scope["outputs"] = outputs
	return scope
}

// cleanUp makes the request of cancel or onAbort.
func (s *session) cleanUp(ctx context.Context, c *call, key string) error {
	a, err := s.send(ctx, c, key)
	if err != nil {
		return err
	}
	defer s.kind.read()()
	return s.judge(a, http.StatusNotFound, http.StatusConflict, http.StatusGone)
}
