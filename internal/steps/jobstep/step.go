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
	"github.com/kedify/argo-rollouts-plugin/internal/steps/bound"
)

var (
	jobs   = batchv1.SchemeGroupVersion.WithResource("jobs")
	pods   = corev1.SchemeGroupVersion.WithResource("pods")
	events = corev1.SchemeGroupVersion.WithResource("events")
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
	texts  []text
}

// Settings are the keys that all kinds have.
func (s *step) Settings() steps.Settings { return s.config.Settings }

// Start makes the Job, or takes the one that an earlier Start has made.
func (s *step) Start(ctx context.Context, work steps.Work) (steps.Progress, error) {
	ro := work.Rollout
	old, err := steps.StableTemplate(ctx, s.kind.objects, ro)
	if err != nil {
		return steps.Progress{}, err
	}
	spec, err := render(&s.config.Job, s.texts, steps.Scope(work, old))
	if err != nil {
		return failed(err.Error()), nil
	}
	if err := s.deleteFormer(ctx, work); err != nil {
		return steps.Progress{}, err
	}
	job := build(work, spec, old)
	err = s.kind.objects.Create(ctx, jobs, ro.Namespace, job)
	switch {
	case err == nil:
		return steps.Progress{Phase: steps.Running, Message: say(work, "was made"), Waiting: "start"}, nil
	case apierrors.IsAlreadyExists(err):
		return s.Poll(ctx, work)
	case isRefused(err):
		return failed(say(work, "cannot be made: "+err.Error())), nil
	case isDeclined(err):
		return steps.Progress{}, problemWith(work, "be made", err)
	default:
		return steps.Progress{}, &steps.UnansweredError{Cause: problemWith(work, "be made", err)}
	}
}

// isRefused tells whether the API server will never accept a Job: it is not valid, or
// admission, such as a quota, has refused it. A missing permission does not count, as it
// may be granted.
func isRefused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err) ||
		apierrors.IsForbidden(err) && !strings.Contains(err.Error(), "cannot create resource")
}

// isDeclined tells whether the API server has answered that it did not carry out the
// request.
func isDeclined(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= 400 && status.Status().Code < 500 && !apierrors.IsTimeout(err)
}

// deleteFormer deletes the Jobs of this Rollout's other attempts that still run. A Rollout
// is at one step at a time, so such a Job belongs to a revision that another has replaced,
// of which the controller does not tell the plugin.
func (s *step) deleteFormer(ctx context.Context, work steps.Work) error {
	var list batchv1.JobList
	ro := work.Rollout
	if err := s.kind.objects.List(ctx, jobs, ro.Namespace, kube.Selection{Labels: RolloutUIDLabel + "=" + string(ro.UID)}, &list); err != nil {
		return fmt.Errorf("Jobs of earlier revisions in %s cannot be listed: %w%s", ro.Namespace, err, advice(err))
	}
	for i := range list.Items {
		job := &list.Items[i]
		if job.Labels[KeyLabel] == work.Key || !isOwnedBy(job, ro) ||
			conditionOf(job, batchv1.JobComplete) != nil || conditionOf(job, batchv1.JobFailed) != nil {
			continue
		}
		s.kind.logger.Info("deleting the Job of an earlier canary, which runs still", "rollout", ro.Namespace+"/"+ro.Name, "job", job.Name)
		if err := s.kind.objects.Delete(ctx, jobs, job.Namespace, job.Name, job.UID); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("Job %s/%s of an earlier revision cannot be deleted: %w%s", job.Namespace, job.Name, err, advice(err))
		}
	}
	return nil
}

// Poll reads the Job. Three small requests at most, each time the controller asks, cost the
// API server less than a watch of all Jobs, pods and Events would, and need fewer grants.
func (s *step) Poll(ctx context.Context, work steps.Work) (steps.Progress, error) {
	var job batchv1.Job
	err := s.kind.objects.Get(ctx, jobs, work.Rollout.Namespace, nameOf(work), &job)
	switch {
	case apierrors.IsNotFound(err) && !kube.IsPathUnknown(err):
		return failed(say(work, "was deleted, or has expired after its end; "+notAgain)), nil
	case err != nil:
		return steps.Progress{}, problemWith(work, "be read", err)
	case !isOf(&job, work):
		return failed(say(work, fmt.Sprintf("is there, and not this step's (its label %s is %q, not %q): delete it and retry the canary", KeyLabel, job.Labels[KeyLabel], work.Key))), nil
	}
	saw, err := s.look(ctx, work, &job)
	if err != nil {
		return steps.Progress{}, err
	}
	v := judge(saw)
	progress := steps.Progress{Phase: v.phase, Message: say(work, v.message), Waiting: v.waiting, Outputs: v.outputs, MayRun: v.mayRun}
	if v.phase == steps.Failed || v.phase == steps.Running && work.Remaining <= 0 {
		progress.Message = s.withLog(ctx, work, v.log, progress.Message)
	}
	progress.State, err = json.Marshal(v.state)
	return progress, err
}

// look reads the state of a Job: its pods, unless all of them run, and the Event that says
// why there are none or why one does not start.
func (s *step) look(ctx context.Context, work steps.Work, job *batchv1.Job) (seen, error) {
	saw := seen{job: job, now: s.kind.now().UTC().Truncate(time.Second)}
	if len(work.State) > 0 {
		if err := json.Unmarshal(work.State, &saw.state); err != nil {
			return saw, fmt.Errorf("the state in the step's status: %w", err)
		}
	}
	ended := conditionOf(job, batchv1.JobComplete) != nil || conditionOf(job, batchv1.JobFailed) != nil
	if ready := job.Status.Ready; !ended && work.Remaining > 0 && job.Status.Active > 0 && ready != nil && *ready >= job.Status.Active {
		return saw, nil
	}
	selector := metav1.FormatLabelSelector(job.Spec.Selector)
	if job.Spec.Selector == nil {
		selector = batchv1.ControllerUidLabel + "=" + string(job.UID)
	}
	var list corev1.PodList
	if err := s.kind.objects.List(ctx, pods, job.Namespace, kube.Selection{Labels: selector, Limit: podLimit}, &list); err != nil {
		return saw, fmt.Errorf("the pods of Job %s/%s cannot be listed: %w%s", job.Namespace, job.Name, err, advice(err))
	}
	saw.pods = slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool {
		owner := metav1.GetControllerOf(&pod)
		return owner == nil || owner.UID != job.UID
	})
	var err error
	pod := creating(saw.pods)
	switch {
	case ended:
	case len(saw.pods) == 0:
		saw.refused, err = s.lastEvent(ctx, job.Namespace, job.UID, "FailedCreate")
		if err != nil {
			err = fmt.Errorf("Job %s/%s has no pod, and the Events that say why cannot be listed: %w%s", job.Namespace, job.Name, err, advice(err))
		}
	case pod != nil:
		saw.unmounted, err = s.lastEvent(ctx, job.Namespace, pod.UID, "FailedMount")
		if err != nil {
			err = fmt.Errorf("pod %s/%s does not start, and the Events that say why cannot be listed: %w%s", job.Namespace, pod.Name, err, advice(err))
		}
	}
	return saw, err
}

// lastEvent returns the message of the last Event with a reason about an object; empty if
// there is none.
func (s *step) lastEvent(ctx context.Context, namespace string, about types.UID, reason string) (string, error) {
	var list corev1.EventList
	err := s.kind.objects.List(ctx, events, namespace, kube.Selection{Fields: "involvedObject.uid=" + string(about) + ",reason=" + reason, Limit: eventLimit}, &list)
	return lastMessage(list.Items), err
}

// lastMessage returns the message of the Event that was made or repeated last.
func lastMessage(all []corev1.Event) string {
	message, last := "", metav1.Time{}
	for _, event := range all {
		if !event.LastTimestamp.Before(&last) {
			message, last = event.Message, event.LastTimestamp
		}
	}
	return message
}

// Cancel deletes the Job, and with it its pods.
func (s *step) Cancel(ctx context.Context, work steps.Work) error { return s.remove(ctx, work) }

// Undo deletes the Job that has finished.
func (s *step) Undo(ctx context.Context, work steps.Work) error { return s.remove(ctx, work) }

// remove deletes the Job of an attempt at a step, but no other Job of the same name.
func (s *step) remove(ctx context.Context, work steps.Work) error {
	var job batchv1.Job
	err := s.kind.objects.Get(ctx, jobs, work.Rollout.Namespace, nameOf(work), &job)
	switch {
	case apierrors.IsNotFound(err) && !kube.IsPathUnknown(err):
		return nil
	case err != nil:
		return problemWith(work, "be read", err)
	case !isOf(&job, work):
		return nil
	}
	if err := s.kind.objects.Delete(ctx, jobs, job.Namespace, job.Name, job.UID); err != nil && !apierrors.IsNotFound(err) {
		return problemWith(work, "be deleted", err)
	}
	return nil
}

// Left names the Job.
func (s *step) Left(work steps.Work) string { return nameForPeople(work) }

func failed(message string) steps.Progress {
	return steps.Progress{Phase: steps.Failed, Message: bound.Shorten(message, headLimit+tailLimit)}
}

// say returns a sentence that begins with the Job's name.
func say(work steps.Work, what string) string {
	return nameForPeople(work) + " " + what
}

func nameForPeople(work steps.Work) string {
	return fmt.Sprintf("Job %s/%s", work.Rollout.Namespace, nameOf(work))
}

// problemWith returns the error of a request about the Job.
func problemWith(work steps.Work, what string, err error) error {
	return fmt.Errorf("%s: %w%s", say(work, "cannot "+what), err, advice(err))
}

// advice says what to do about an error of the API server.
func advice(err error) string {
	if apierrors.IsForbidden(err) {
		return " (deploy/rbac-step/job.yaml has what the controller's ServiceAccount needs)"
	}
	return ""
}
