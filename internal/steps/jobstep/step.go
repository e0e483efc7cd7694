package jobstep

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/stepobject"
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
	kind     *kind
	config   Config
	settings steps.Settings
	// main is what the step's Job is made from, onAbort its Job of that name; nil for none.
	main, onAbort *source
	// undoing is what the next Undo has to know of the Job onAbort, takenBack whether that has
	// completed: it may expire before the first Job is gone. No status keeps them.
	undoing   json.RawMessage
	takenBack bool
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
// controller does not tell the plugin. A Job that takes back what an earlier canary has done is
// waited for.
func (s *step) Start(ctx context.Context, work steps.Work) (steps.Progress, error) {
	ro, store := work.Rollout, s.kind.jobs
	var list batchv1.JobList
	if err := store.Objects.List(ctx, jobs, ro.Namespace, kube.Selection{Labels: stepobject.OfRollout(ro)}, &list); err != nil {
		return steps.Progress{}, store.Failure(fmt.Sprintf("Jobs of Rollout %s/%s cannot be listed", ro.Namespace, ro.Name), err)
	}
	for i := range list.Items {
		if job := &list.Items[i]; job.Name == stepobject.NameOf(work) && stepobject.IsOf(job, work) {
			return s.progress(ctx, work, job, inStatus)
		}
	}
	name := stepobject.NameOf(work)
	job, err := s.wanted(ctx, work, s.main, name)
	if err != nil {
		return steps.Progress{}, err
	}
	for i := range list.Items {
		former := &list.Items[i]
		if former.Labels[stepobject.KeyLabel] == work.Key || !stepobject.IsOwnedBy(former, ro) || hasEnded(former) {
			continue
		}
		if former.Labels[undoLabel] != "" {
			return steps.Progress{}, fmt.Errorf("%s still takes back what an earlier canary has done, which this step may be about to do again", store.Named(former.Namespace, former.Name))
		}
		s.kind.logger.Info("deleting the Job of an earlier canary, which still runs", "rollout", ro.Namespace+"/"+ro.Name, "job", former.Name)
		if err := store.Delete(ctx, former); err != nil {
			return steps.Progress{}, fmt.Errorf("of an earlier revision: %w", err)
		}
	}
	switch made, err := store.Create(ctx, store.Objects.Create, job.ObjectMeta, job); {
	case err != nil:
		return steps.Progress{}, err
	case made:
		return store.Created(ro.Namespace, name), nil
	}
	return s.Poll(ctx, work)
}

// wanted returns a Job of an attempt at the step, which has as long as work.Remaining.
func (s *step) wanted(ctx context.Context, work steps.Work, from *source, name string) (*batchv1.Job, error) {
	namespace, store := work.Rollout.Namespace, s.kind.jobs
	old, err := steps.StableTemplate(ctx, store.Objects, work.Rollout)
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
	if from.from != "" {
		if err := store.Objects.Get(ctx, cronJobs, namespace, from.from, &cronJob); err != nil {
			return nil, store.Failure(fmt.Sprintf("from: CronJob %s/%s cannot be read", namespace, from.from), err)
		}
	}
	spec, err := from.render(ctx, steps.Scope(work, old), cronJob.Spec.JobTemplate.Spec)
	if err != nil {
		return nil, &steps.Error{Final: true, Cause: err}
	}
	return build(work, name, spec, old), nil
}

// Poll reads the Job. Three small requests at most, each time the controller asks, cost the
// API server less than a watch of all Jobs, pods and Events would, and need fewer grants.
func (s *step) Poll(ctx context.Context, work steps.Work) (steps.Progress, error) {
	job := &batchv1.Job{}
	namespace, name := work.Rollout.Namespace, stepobject.NameOf(work)
	found, err := s.kind.jobs.Get(ctx, namespace, name, job)
	switch {
	case err != nil:
		return steps.Progress{}, err
	case !found:
		return s.kind.jobs.Gone(namespace, name), nil
	}
	if foreign := s.kind.jobs.Foreign(job, work); foreign != nil {
		return *foreign, nil
	}
	return s.progress(ctx, work, job, inStatus)
}

// progress tells how a Job goes.
func (s *step) progress(ctx context.Context, work steps.Work, job *batchv1.Job, limit room) (steps.Progress, error) {
	o, err := s.observe(ctx, work, job)
	if err != nil {
		return steps.Progress{}, err
	}
	r := o.result()
	r.Message = s.kind.jobs.Named(job.Namespace, job.Name) + " " + r.Message
	if r.Phase == steps.Failed || r.Phase == steps.Running && work.Remaining <= 0 {
		r.Message = s.withLog(ctx, work, r.log, r.Message, limit)
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
	if err := s.kind.jobs.Objects.List(ctx, pods, job.Namespace, kube.Selection{Labels: selector, Limit: podLimit}, &list); err != nil {
		return o, s.kind.jobs.Failure(fmt.Sprintf("the pods of Job %s/%s cannot be listed", job.Namespace, job.Name), err)
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
	err := s.kind.jobs.Objects.List(ctx, events, namespace, kube.Selection{Fields: "involvedObject.uid=" + string(about) + ",reason=" + reason, Limit: eventLimit}, &list)
	if err != nil {
		return "", s.kind.jobs.Failure("no pod starts yet, and the Events that say why cannot be listed", err)
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
	return s.kind.jobs.Remove(ctx, work, stepobject.NameOf(work))
}

// Undo runs the Job onAbort, if there is one, and then deletes the Job that has finished.
func (s *step) Undo(ctx context.Context, work steps.Work) error {
	if s.onAbort != nil && !s.takenBack {
		if err := s.takeBack(ctx, work); err != nil {
			return err
		}
		s.takenBack = true
	}
	return s.Cancel(ctx, work)
}

// Left names the Job.
func (s *step) Left(work steps.Work) string {
	return s.kind.jobs.Named(work.Rollout.Namespace, stepobject.NameOf(work))
}
