package jobstep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/cel"
)

var (
	jobs     = batchv1.SchemeGroupVersion.WithResource("jobs")
	cronJobs = batchv1.SchemeGroupVersion.WithResource("cronjobs")
	pods     = corev1.SchemeGroupVersion.WithResource("pods")
	events   = corev1.SchemeGroupVersion.WithResource("events")
)

// podLimit and eventLimit bound how many of a Job's pods and Events are read.
const (
	podLimit   = 500
	eventLimit = 100
)

// step runs a Job. The API server creates only one Job of a name, so a repeated Start
// finds the Job that the earlier one has created.
type step struct {
	kind   *kind
	config Config
	// spec is the JobSpec as it is configured, texts are the compiled texts in it.
	spec  json.RawMessage
	texts map[string]*cel.Text
}

// Repeatable is true: a Job has a name.
func (s *step) Repeatable() bool { return true }

// Finds is false: the name does.
func (s *step) Finds() bool { return false }

// Start creates the Job, unless an earlier Start has. What the Job is made from may have
// changed or gone since then, so the Job comes first.
//
// It deletes the Jobs of this Rollout's other attempts that still run. A Rollout is at one
// step at a time, so such a Job belongs to a revision that another has replaced, of which the
// controller does not tell the plugin.
func (s *step) Start(ctx context.Context, work steps.Work) (steps.Progress, error) {
	ro := work.Rollout
	var list batchv1.JobList
	if err := s.kind.objects.List(ctx, jobs, ro.Namespace, kube.Selection{Labels: RolloutUIDLabel + "=" + string(ro.UID)}, &list); err != nil {
		return steps.Progress{}, failure(fmt.Sprintf("Jobs of Rollout %s/%s cannot be listed", ro.Namespace, ro.Name), err)
	}
	for i := range list.Items {
		if job := &list.Items[i]; job.Name == nameOf(work) && isOf(job, work) {
			return s.progress(ctx, work, job)
		}
	}
	job, err := s.wanted(ctx, work)
	if err != nil {
		return steps.Progress{}, err
	}
	for i := range list.Items {
		former := &list.Items[i]
		if former.Labels[KeyLabel] == work.Key || !isOwnedBy(former, ro) || hasEnded(former) {
			continue
		}
		s.kind.logger.Info("deleting the Job of an earlier canary, which still runs", "rollout", ro.Namespace+"/"+ro.Name, "job", former.Name)
		if err := s.kind.objects.Delete(ctx, jobs, former.Namespace, former.Name, former.UID); err != nil && !apierrors.IsNotFound(err) {
			return steps.Progress{}, failure(fmt.Sprintf("Job %s/%s of an earlier revision cannot be deleted", former.Namespace, former.Name), err)
		}
	}
	err = s.kind.objects.Create(ctx, jobs, ro.Namespace, job)
	switch {
	case err == nil:
		return steps.Progress{Phase: steps.Running, Message: s.Left(work) + " was created", Waiting: "start"}, nil
	case apierrors.IsAlreadyExists(err):
		return s.Poll(ctx, work)
	}
	cause := failure(s.Left(work)+" cannot be created", err)
	return steps.Progress{}, &steps.Error{Outcome: outcomeOf(err), Final: isRefused(err), Cause: cause}
}

// wanted returns the Job of an attempt at the step.
func (s *step) wanted(ctx context.Context, work steps.Work) (*batchv1.Job, error) {
	namespace := work.Rollout.Namespace
	old, err := steps.StableTemplate(ctx, s.kind.objects, work.Rollout)
	if err != nil {
		return nil, err
	}
	var cronJob struct {
		Spec struct {
			JobTemplate struct {
				Spec json.RawMessage `json:"spec"`
			} `json:"jobTemplate"`
		} `json:"spec"`
	}
	if name := strings.TrimPrefix(s.config.From, cronJobPrefix); name != "" {
		if err := s.kind.objects.Get(ctx, cronJobs, namespace, name, &cronJob); err != nil {
			return nil, failure(fmt.Sprintf("from: CronJob %s/%s cannot be read", namespace, name), err)
		}
	}
	spec, err := s.render(ctx, steps.Scope(work, old), cronJob.Spec.JobTemplate.Spec)
	if err != nil {
		return nil, &steps.Error{Final: true, Cause: err}
	}
	return build(work, spec, old), nil
}

// outcomeOf tells whether a Job may have been created in spite of an error. Answers from 400
// to 499 say that it was not.
func outcomeOf(err error) steps.Outcome {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Code >= 400 && status.Status().Code < 500 && !apierrors.IsTimeout(err) {
		return steps.NotDone
	}
	return steps.MayBeDone
}

// isRefused tells whether the API server will never accept a Job: it is not valid, or
// admission has refused it. A missing permission does not count, as it may be granted, nor a
// quota, in which there may be room later.
func isRefused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err) ||
		apierrors.IsForbidden(err) && !strings.Contains(err.Error(), "cannot create resource") && !isQuota(err.Error())
}

// isQuota tells whether a quota has no room now. One that wants limits that a pod does not
// have says "failed quota".
func isQuota(message string) bool { return strings.Contains(message, "exceeded quota") }

// failure returns an error of the API server with what cannot be done, and what to do.
func failure(what string, err error) error {
	advice := ""
	if apierrors.IsForbidden(err) && !isQuota(err.Error()) {
		advice = " (deploy/rbac-step/job.yaml has what the controller's ServiceAccount needs)"
	}
	return fmt.Errorf("%s: %w%s", what, err, advice)
}

// get reads the Job with the name of the step's Job, which may be somebody else's. It returns
// nil if there is none.
func (s *step) get(ctx context.Context, work steps.Work) (*batchv1.Job, error) {
	job := &batchv1.Job{}
	err := s.kind.objects.Get(ctx, jobs, work.Rollout.Namespace, nameOf(work), job)
	switch {
	case apierrors.IsNotFound(err) && !kube.IsPathUnknown(err):
		return nil, nil
	case err != nil:
		return nil, failure(s.Left(work)+" cannot be read", err)
	}
	return job, nil
}

// Poll reads the Job. Three small requests at most, each time the controller asks, cost the
// API server less than a watch of all Jobs, pods and Events would, and need fewer grants.
func (s *step) Poll(ctx context.Context, work steps.Work) (steps.Progress, error) {
	job, err := s.get(ctx, work)
	switch {
	case err != nil:
		return steps.Progress{}, err
	case job == nil:
		return s.failed(work, "was deleted, or has expired after its end; "+notAgain), nil
	case !isOf(job, work):
		return s.failed(work, fmt.Sprintf("exists, and is not this step's (its label %s is %q, not %q): delete it and retry the canary", KeyLabel, job.Labels[KeyLabel], work.Key)), nil
	}
	return s.progress(ctx, work, job)
}

func (s *step) failed(work steps.Work, message string) steps.Progress {
	return steps.Progress{Phase: steps.Failed, Message: s.Left(work) + " " + message}
}

// progress tells how the step's Job goes.
func (s *step) progress(ctx context.Context, work steps.Work, job *batchv1.Job) (steps.Progress, error) {
	o, err := s.observe(ctx, work, job)
	if err != nil {
		return steps.Progress{}, err
	}
	r := o.result()
	r.Message = s.Left(work) + " " + r.Message
	if r.Phase == steps.Failed || r.Phase == steps.Running && work.Remaining <= 0 {
		r.Message = s.withLog(ctx, work, r.log, r.Message)
	}
	r.State, err = json.Marshal(r.state)
	return r.Progress, err
}

// observe reads the state of a Job: its pods, unless all of them run, and the Event that says
// why there are none or why one does not start.
func (s *step) observe(ctx context.Context, work steps.Work, job *batchv1.Job) (observation, error) {
	o := observation{job: job, now: s.kind.now().UTC().Truncate(time.Second)}
	if len(work.State) > 0 {
		if err := json.Unmarshal(work.State, &o.state); err != nil {
			return o, fmt.Errorf("the state in the step's status: %w", err)
		}
	}
	if ready := job.Status.Ready; !hasEnded(job) && work.Remaining > 0 && job.Status.Active > 0 && ready != nil && *ready >= job.Status.Active {
		return o, nil
	}
	selector := metav1.FormatLabelSelector(job.Spec.Selector)
	if job.Spec.Selector == nil {
		selector = batchv1.ControllerUidLabel + "=" + string(job.UID)
	}
	var list corev1.PodList
	if err := s.kind.objects.List(ctx, pods, job.Namespace, kube.Selection{Labels: selector, Limit: podLimit}, &list); err != nil {
		return o, failure(fmt.Sprintf("the pods of Job %s/%s cannot be listed", job.Namespace, job.Name), err)
	}
	o.pods = slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool {
		owner := metav1.GetControllerOf(&pod)
		return owner == nil || owner.UID != job.UID
	})
	var err error
	pod := creating(o.pods)
	switch {
	case hasEnded(job):
	case len(o.pods) == 0:
		o.createProblem, err = s.lastEvent(ctx, job.Namespace, job.UID, "FailedCreate")
	case pod != nil:
		o.mountProblem, err = s.lastEvent(ctx, job.Namespace, pod.UID, "FailedMount")
	}
	return o, err
}

// lastEvent returns the message of the last Event with a reason about an object; empty if
// there is none.
func (s *step) lastEvent(ctx context.Context, namespace string, about types.UID, reason string) (string, error) {
	var list corev1.EventList
	err := s.kind.objects.List(ctx, events, namespace, kube.Selection{Fields: "involvedObject.uid=" + string(about) + ",reason=" + reason, Limit: eventLimit}, &list)
	if err != nil {
		return "", failure("no pod starts yet, and the Events that say why cannot be listed", err)
	}
	message, last := "", metav1.Time{}
	for _, event := range list.Items {
		if !event.LastTimestamp.Before(&last) {
			message, last = event.Message, event.LastTimestamp
		}
	}
	return message, nil
}

// Cancel deletes the Job, and with it its pods.
func (s *step) Cancel(ctx context.Context, work steps.Work) error {
	job, err := s.get(ctx, work)
	if err != nil || job == nil || !isOf(job, work) {
		return err
	}
	if err := s.kind.objects.Delete(ctx, jobs, job.Namespace, job.Name, job.UID); err != nil && !apierrors.IsNotFound(err) {
		return failure(s.Left(work)+" cannot be deleted", err)
	}
	return nil
}

// Undo deletes the Job that has finished.
func (s *step) Undo(ctx context.Context, work steps.Work) error { return s.Cancel(ctx, work) }

// Left names the Job.
func (s *step) Left(work steps.Work) string {
	return fmt.Sprintf("Job %s/%s", work.Rollout.Namespace, nameOf(work))
}
