package jobstep

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/stepobject"
)

const (
	// undoLabel tells a Job that takes back what a step has done from the step's own.
	undoLabel = "rollouts.kedify.io/step-undo"
	// lastLooks is how long before its end a clean-up that does not succeed says what the Job has
	// logged: it looks every 30 seconds, and does not know which look is the last.
	lastLooks = 45 * time.Second
)

// takeBack runs the Job onAbort of an attempt that has succeeded. It returns nil when that Job has
// completed, a Final error when it has failed, and another one while it runs.
func (s *step) takeBack(ctx context.Context, work steps.Work) error {
	namespace, name, store := work.Rollout.Namespace, stepobject.NameOf(work, "undo"), s.kind.jobs
	timeout, _ := s.settings.TimeoutFor(work.Rollout) // of one that is too long it is what is allowed
	job := &batchv1.Job{}
	found, err := store.Get(ctx, namespace, name, job)
	if err != nil {
		return err
	}
	if !found {
		work.Remaining = timeout
		return s.createUndo(ctx, work, name)
	}
	if foreign := store.Foreign(job, work); foreign != nil {
		return &steps.Error{Final: true, Cause: errors.New("onAbort: " + foreign.Message)}
	}
	work.Remaining = timeout - lastLooks - s.kind.now().Sub(job.CreationTimestamp.Time)
	work.State = s.undoing
	progress, err := s.progress(ctx, work, job, inEvent)
	if err != nil {
		return err
	}
	s.undoing = progress.State
	if progress.Phase == steps.Successful {
		return nil
	}
	hasFailed := progress.Phase == steps.Failed
	return &steps.Error{Final: hasFailed, UnderWay: !hasFailed, Cause: errors.New("onAbort: " + progress.Message)}
}

func (s *step) createUndo(ctx context.Context, work steps.Work, name string) error {
	job, err := s.wanted(ctx, work, s.onAbort, name)
	if err != nil {
		return fmt.Errorf("onAbort: %w", err)
	}
	job.Labels[undoLabel] = "true"
	store := s.kind.jobs
	if _, err := store.Create(ctx, store.Objects.Create, job.ObjectMeta, job); err != nil {
		return &steps.Error{Final: isFinal(err), Cause: fmt.Errorf("onAbort: %w", err)} // its name lets it be made again
	}
	return &steps.Error{UnderWay: true, Cause: fmt.Errorf("onAbort: %s was created", store.Named(work.Rollout.Namespace, name))}
}

func isFinal(err error) bool {
	var e *steps.Error
	return errors.As(err, &e) && e.Final
}
