package httpstep

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/outbound"
)

// Settings are the keys that all kinds have.
func (s *step) Settings() steps.Settings { return s.settings }

// Start finds what an earlier request has started, or makes the request. A gate polls.
func (s *step) Start(ctx context.Context, work steps.Work) (steps.Progress, error) {
	if s.request == nil {
		return s.Poll(ctx, work)
	}
	return s.operate(ctx, work, (*session).start)
}

// Poll asks how the work goes.
func (s *step) Poll(ctx context.Context, work steps.Work) (steps.Progress, error) {
	return s.operate(ctx, work, (*session).ask)
}

// Left names what stays.
func (s *step) Left(work steps.Work) string {
	if s.request == nil {
		return "what its cancel is for"
	}
	left := fmt.Sprintf("what its %s with Idempotency-Key %s has started", s.request.method, work.Key)
	if len(work.Outputs) > 0 {
		left += fmt.Sprintf(" (outputs %v)", work.Outputs)
	}
	return left
}

// operate carries an operation out. A failure that another attempt cannot mend fails the
// step or the attempt; after other errors the operation is made again.
func (s *step) operate(ctx context.Context, work steps.Work, operation func(*session, context.Context) (steps.Progress, error)) (steps.Progress, error) {
	n, err := s.session(ctx, work)
	if err == nil {
		err = n.unread
	}
	if err != nil {
		return n.clean(steps.Progress{}, err)
	}
	return n.clean(operation(n, ctx))
}

// failed turns an error that another attempt cannot mend into a failure. started tells
// whether work may have been started before.
func failed(err error, started bool) (steps.Progress, error) {
	var refused *outbound.RefusedError
	if errors.As(err, &refused) {
		return steps.Progress{Phase: steps.Failed, Message: err.Error(), MayRun: started}, nil
	}
	return steps.Progress{}, err
}

func (s *session) start(ctx context.Context) (steps.Progress, error) {
	if s.find != nil {
		outputs, found, err := s.look(ctx)
		if err != nil {
			return failed(err, s.work.Unknown)
		}
		if found {
			return s.started("found what an earlier request has started", outputs), nil
		}
	}
	a, err := s.send(ctx, s.request, s.work.Key)
	if err != nil {
		var refused *outbound.RefusedError
		return failed(err, s.work.Unknown || errors.As(err, &refused) && refused.Reached)
	}
	defer s.kind.read()()
	if err := s.judge(a); err != nil {
		p, err := failed(err, s.work.Unknown)
		if p.Phase == steps.Failed && s.cancel != nil && s.find == nil && !p.MayRun {
			p.MayRun, p.State = true, refusedState
		}
		return p, err
	}
	outputs, err := s.evaluate(s.outputs, a, false)
	if err != nil {
		return steps.Progress{Phase: steps.Failed, Message: fmt.Sprintf("%s, and %v", s.quote(a), err), Outputs: outputs, MayRun: true}, nil
	}
	return s.started(fmt.Sprintf("%s answered %d %s", a.what, a.Status, http.StatusText(a.Status)), outputs), nil
}

// started returns the Progress of a step whose work has been started.
func (s *session) started(how string, outputs map[string]string) steps.Progress {
	if s.poll == nil {
		return steps.Progress{Phase: steps.Successful, Message: how, Outputs: outputs}
	}
	s.setOutputs(outputs)
	p := s.waiting("")
	p.Outputs = outputs
	if s.message == nil {
		p.Message = how + ", " + p.Message
	}
	return p
}

// look finds what an earlier request has started. As it changes nothing, no error leaves
// open whether a request was carried out.
func (s *session) look(ctx context.Context) (outputs map[string]string, found bool, err error) {
	a, err := s.send(ctx, &s.find.call, "")
	defer s.kind.read()()
	if err == nil {
		err = s.judge(a, http.StatusNotFound)
	}
	if err != nil {
		return nil, false, harmless(err)
	}
	if a.Status == http.StatusNotFound {
		return nil, false, nil
	}
	if s.find.found != nil {
		if found, err = s.holds(s.find.found, a); err != nil {
			return nil, false, &outbound.RefusedError{Cause: fmt.Errorf("find.found: %w", err)}
		}
		if !found {
			return nil, false, nil
		}
	}
	if outputs, err = s.evaluate(s.find.outputs, a, false); err != nil {
		return nil, true, &outbound.RefusedError{Cause: err}
	}
	return outputs, true, nil
}

// harmless returns the error of a request that changes nothing, as one that does not leave
// open whether the request was carried out.
func harmless(err error) error {
	var again *againError
	var lost *steps.UnansweredError
	switch {
	case errors.As(err, &again):
		again.unsure = false
		return again
	case errors.As(err, &lost):
		return errors.New(lost.Cause.Error())
	}
	return err
}

// ask polls.
func (s *session) ask(ctx context.Context) (steps.Progress, error) {
	if s.poll == nil {
		// A preset had a poll when the work was started.
		return steps.Progress{Phase: steps.Successful, Message: "the request was answered, and the step has no poll"}, nil
	}
	a, err := s.send(ctx, &s.poll.call, "")
	defer s.kind.read()()
	if err == nil {
		err = s.judge(a, s.poll.accept...)
	}
	if err != nil {
		return failed(harmless(err), true)
	}
	verdict, why, err := s.verdict(a)
	if err != nil {
		return steps.Progress{}, err
	}
	outputs, err := s.evaluate(s.poll.outputs, a, verdict != steps.Successful)
	if err != nil {
		return steps.Progress{Phase: steps.Failed, Message: fmt.Sprintf("%s, and %v", why, err), Outputs: outputs}, nil
	}
	if verdict != steps.Running {
		return steps.Progress{Phase: verdict, Message: why, Outputs: outputs}, nil
	}
	all := maps.Clone(s.work.Outputs)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, outputs)
	s.setOutputs(all)
	p := s.waiting(why)
	p.Outputs = outputs
	return p, nil
}

// verdict judges the answer to a poll. An error says that a condition cannot be evaluated,
// and the next answer may be another one.
func (s *session) verdict(a *answer) (verdict steps.Phase, why string, err error) {
	if s.poll.failure != nil {
		has, err := s.holds(s.poll.failure, a)
		if err != nil {
			return "", "", fmt.Errorf("poll.failureCondition: %w (%s)", err, s.quote(a))
		}
		if has {
			return steps.Failed, fmt.Sprintf("poll.failureCondition is true (%s): %s", s.poll.failureText, s.quote(a)), nil
		}
	}
	if s.poll.success != nil {
		has, err := s.holds(s.poll.success, a)
		if err != nil {
			return "", "", fmt.Errorf("poll.successCondition: %w (%s)", err, s.quote(a))
		}
		if has {
			return steps.Successful, a.what + ": poll.successCondition is true", nil
		}
		return steps.Running, "waiting for " + a.what + ": poll.successCondition is not true yet", nil
	}
	if a.Status >= 200 && a.Status < 300 {
		return steps.Successful, fmt.Sprintf("%s answered %d %s", a.what, a.Status, http.StatusText(a.Status)), nil
	}
	return steps.Running, "waiting for " + a.what, nil
}

// waiting returns the Progress of running work. Its message is the configuration's, else
// why.
func (s *session) waiting(why string) steps.Progress {
	if why == "" {
		why = "waiting for it to end"
	}
	if s.message == nil {
		return steps.Progress{Phase: steps.Running, Message: why}
	}
	message, err := s.message.Within(s.pool).Render(s.scope)
	if err != nil {
		message = fmt.Sprintf("%s (message: %v)", why, err)
	}
	return steps.Progress{Phase: steps.Running, Message: oneLine(message, maxMessage)}
}
