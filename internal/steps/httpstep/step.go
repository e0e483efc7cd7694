package httpstep

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/outbound"
)

// Repeatable tells whether request may be made again after one that may have been carried out.
func (s *step) Repeatable() bool {
	return s.request == nil || outbound.ReadsOnly(s.request.method) || !s.request.changes && !s.atMostOnce
}

// Finds tells whether Start looks for what an earlier request has started.
func (s *step) Finds() bool { return s.find != nil }

// Start finds what an earlier request has started, or makes the request. A gate polls.
func (s *step) Start(ctx context.Context, work steps.Work) (steps.Progress, error) {
	if s.request == nil {
		return s.Poll(ctx, work)
	}
	return s.operate(ctx, work, (*session).startWork)
}

// Poll asks how the work goes.
func (s *step) Poll(ctx context.Context, work steps.Work) (steps.Progress, error) {
	return s.operate(ctx, work, (*session).pollWork)
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

// OperationTimeout is what the requests of a step may take together, one of which may have
// 5 minutes, and the reads of Secrets.
func (s *step) OperationTimeout() time.Duration {
	timeout := 20 * time.Second
	for _, c := range s.calls() {
		timeout += c.timeout
	}
	return timeout
}

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

// failed turns an error that another attempt cannot mend into a failure. earlier is what was
// done before.
func failed(err error, earlier steps.Outcome) (steps.Progress, error) {
	var e *steps.Error
	if errors.As(err, &e) && e.Final {
		return steps.Progress{Phase: steps.Failed, Message: err.Error(), Outcome: max(earlier, e.Outcome)}, nil
	}
	return steps.Progress{}, err
}

func (s *session) startWork(ctx context.Context) (steps.Progress, error) {
	if s.find != nil {
		outputs, found, err := s.findWork(ctx)
		switch {
		case err != nil:
			return failed(err, s.work.Earlier)
		case found:
			return s.started(ctx, "found what an earlier request has started", outputs), nil
		case s.work.LookOnly:
			return steps.Progress{}, errors.New("find does not show yet what the requests so far may have started")
		}
	}
	a, err := s.do(ctx, s.request, s.work.Key)
	defer a.release()
	if err != nil {
		return failed(err, s.work.Earlier)
	}
	outputs, err := s.evaluate(ctx, s.outputs, a, false)
	if err != nil {
		return steps.Progress{Phase: steps.Failed, Message: fmt.Sprintf("%s, and %v", a.describe(), err), Outputs: outputs, Outcome: steps.Done}, nil
	}
	return s.started(ctx, a.describe(), outputs), nil
}

// started returns the Progress of a step whose work has been started.
func (s *session) started(ctx context.Context, how string, outputs map[string]string) steps.Progress {
	if s.poll == nil {
		return steps.Progress{Phase: steps.Successful, Message: how, Outputs: outputs}
	}
	s.setOutputs(outputs)
	return steps.Progress{Phase: steps.Running, Message: s.waiting(ctx, how+", waiting for it to end"), Outputs: outputs}
}

// findWork finds what an earlier request has started.
func (s *session) findWork(ctx context.Context) (outputs map[string]string, found bool, err error) {
	a, err := s.do(ctx, &s.find.call, "", http.StatusNotFound)
	defer a.release()
	if err != nil || a.Status == http.StatusNotFound {
		return nil, false, err
	}
	if s.find.found != nil {
		if found, err = s.holds(ctx, s.find.found, a); err != nil {
			return nil, false, fmt.Errorf("find.found: %w", err) // the next answer may be another one
		}
		if !found {
			return nil, false, nil
		}
	}
	if outputs, err = s.evaluate(ctx, s.find.outputs, a, false); err != nil {
		return outputs, true, &steps.Error{Outcome: steps.Done, Final: true, Cause: err}
	}
	return outputs, true, nil
}

// pollWork asks how the work goes.
func (s *session) pollWork(ctx context.Context) (steps.Progress, error) {
	if s.poll == nil {
		// A preset had a poll when the work was started.
		return steps.Progress{Phase: steps.Successful, Message: "the request was answered, and the step has no poll"}, nil
	}
	a, err := s.do(ctx, &s.poll.call, "", s.poll.accept...)
	defer a.release()
	if err != nil {
		return failed(err, s.whileRunning())
	}
	phase, why, err := s.verdict(ctx, a)
	if err != nil {
		return steps.Progress{}, err
	}
	p := steps.Progress{Phase: phase, Message: why}
	if p.Outputs, err = s.evaluate(ctx, s.poll.outputs, a, phase != steps.Successful); err != nil {
		p.Phase, p.Message = steps.Failed, fmt.Sprintf("%s, and %v", why, err)
		if phase == steps.Running {
			p.Outcome = s.whileRunning()
		}
		return p, nil
	}
	all := map[string]string{}
	maps.Copy(all, s.work.Outputs)
	maps.Copy(all, p.Outputs)
	s.setOutputs(all)
	switch {
	case phase == steps.Running:
		p.Message = s.waiting(ctx, why)
	case phase == steps.Failed && s.messageTellsOfPoll():
		p.Message = s.waiting(ctx, why) + " (" + why + ")"
	}
	return p, nil
}

// whileRunning is the outcome of a step that fails while its work goes on. A gate has none,
// unless it has something to cancel.
func (s *step) whileRunning() steps.Outcome {
	if s.request == nil && s.cancel == nil {
		return steps.NotDone
	}
	return steps.Done
}

// verdict judges the answer to a poll. An error says that a condition cannot be evaluated,
// and the next answer may be another one.
func (s *session) verdict(ctx context.Context, a *answer) (phase steps.Phase, why string, err error) {
	if s.poll.failure != nil {
		has, err := s.holds(ctx, s.poll.failure, a)
		if err != nil {
			return "", "", fmt.Errorf("%s, and poll.failureCondition: %w", a.describe(), err)
		}
		if has {
			return steps.Failed, fmt.Sprintf("%s, and poll.failureCondition is true: %s", a.describe(), s.poll.failureText), nil
		}
	}
	if s.poll.success == nil {
		if a.accepted(nil) {
			return steps.Successful, a.describe(), nil
		}
		return steps.Running, "waiting for " + a.what, nil
	}
	has, err := s.holds(ctx, s.poll.success, a)
	switch {
	case err != nil:
		return "", "", fmt.Errorf("%s, and poll.successCondition: %w", a.describe(), err)
	case has:
		return steps.Successful, a.what + ": poll.successCondition is true", nil
	}
	return steps.Running, "waiting for " + a.what + ": poll.successCondition is not true yet", nil
}

// waiting says what running work waits for: the configuration's message, else why.
func (s *session) waiting(ctx context.Context, why string) string {
	if s.message == nil {
		return why
	}
	message, err := s.message.Render(ctx, s.budget, s.vars)
	if err != nil {
		return fmt.Sprintf("%s (message: %v)", why, err)
	}
	return s.reader.Redactor.Quote(message, maxMessage)
}

// messageTellsOfPoll tells whether the configuration's message has an output of poll, and so
// says more of a failure than what was waited for.
func (s *step) messageTellsOfPoll() bool {
	return s.message != nil && slices.ContainsFunc(s.poll.outputs, func(o output) bool { return slices.Contains(s.message.Outputs, o.name) })
}
