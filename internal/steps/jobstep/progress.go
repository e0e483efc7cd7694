package jobstep

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/stepobject"
)

// grace is how long a problem that keeps a pod from starting may last: registries have
// hiccups, and Secrets come a moment later.
const grace = time.Minute

// observation is what an operation has read of a Job.
type observation struct {
	job *batchv1.Job
	// pods are the pods of the Job.
	pods []corev1.Pod
	// createProblem is why the last pod could not be created; empty if the Job has pods.
	createProblem string
	// mountProblem is the kubelet's last message about the volumes of a pod that waits for
	// them.
	mountProblem string
	state        state
	now          time.Time
}

// state is what the next operation has to know of a Job.
type state struct {
	// Problem is what keeps a pod from starting, and Since when that was seen first.
	Problem string    `json:"problem,omitempty"`
	Since   time.Time `json:"since,omitzero"`
}

// result is what an observation means for the step. The Job's name is left out of its Message.
type result struct {
	steps.Progress
	state state
	// log is the container whose last log lines tell more.
	log *container
}

// container is a container of a pod.
type container struct {
	pod, name string
	// message is its termination message.
	message string
}

func running(waiting, message string) steps.Progress {
	return steps.Progress{Phase: steps.Running, Waiting: waiting, Message: message}
}

// result tells what has become of a Job. It makes no request.
func (o observation) result() result {
	job := o.job
	if failure := conditionOf(job, batchv1.JobFailed); failure != nil {
		return o.failed(failure)
	}
	if conditionOf(job, batchv1.JobComplete) != nil {
		return result{Progress: steps.Progress{Phase: steps.Successful, Message: "has completed", Outputs: outputsOf(o.pods)}}
	}
	if job.DeletionTimestamp != nil {
		return result{Progress: steps.Progress{Phase: steps.Failed, Message: "is being deleted, before it has ended; " + stepobject.NotAgain}}
	}
	if target := conditionOf(job, batchv1.JobFailureTarget); target != nil {
		return result{Progress: running("end", "fails, and its pods are ended"+because(target.Reason, target.Message)), log: runningContainer(o.pods)}
	}
	if problem := o.problem(); problem != nil {
		return problem.result(o)
	}
	return result{Progress: o.running(), log: runningContainer(o.pods)}
}

func hasEnded(job *batchv1.Job) bool {
	return conditionOf(job, batchv1.JobComplete) != nil || conditionOf(job, batchv1.JobFailed) != nil
}

func conditionOf(job *batchv1.Job, of batchv1.JobConditionType) *batchv1.JobCondition {
	for i, condition := range job.Status.Conditions {
		if condition.Type == of && condition.Status == corev1.ConditionTrue {
			return &job.Status.Conditions[i]
		}
	}
	return nil
}

// because returns a reason and a message in brackets, if there are any.
func because(reason, message string) string {
	text := strings.Trim(reason+": "+strings.TrimSuffix(message, "."), ": ")
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

// failed tells how a Job has failed.
func (o observation) failed(failure *batchv1.JobCondition) result {
	r := result{Progress: steps.Progress{Phase: steps.Failed, Message: "has failed" + because(failure.Reason, failure.Message)}}
	pod, status := failedContainer(o.pods)
	switch {
	case status != nil:
		ended := status.State.Terminated
		r.Message += fmt.Sprintf("; container %s of pod %s ended with exit code %d", status.Name, pod.Name, ended.ExitCode)
		if ended.Reason != "" && ended.Reason != "Error" {
			r.Message += " (" + ended.Reason + ")"
		}
		r.log = &container{pod.Name, status.Name, ended.Message}
	case pod != nil:
		r.Message += fmt.Sprintf("; pod %s has failed%s", pod.Name, because(pod.Status.Reason, pod.Status.Message))
	case len(o.pods) == 0:
		r.Message += "; its pods are gone, and their logs with them"
	}
	return r
}

// failedContainer returns the container that has failed last, and its pod. If no container
// has failed but a pod has, it returns that pod alone.
func failedContainer(pods []corev1.Pod) (pod *corev1.Pod, last *corev1.ContainerStatus) {
	for of, status := range statuses(pods) {
		ended := status.State.Terminated
		if ended != nil && ended.ExitCode != 0 && (last == nil || !ended.FinishedAt.Before(&last.State.Terminated.FinishedAt)) {
			pod, last = of, status
		}
	}
	for i := range pods {
		if last == nil && pods[i].Status.Phase == corev1.PodFailed {
			pod = &pods[i]
		}
	}
	return pod, last
}

// statuses are the statuses of all initContainers and containers of pods.
func statuses(pods []corev1.Pod) iter.Seq2[*corev1.Pod, *corev1.ContainerStatus] {
	return func(yield func(*corev1.Pod, *corev1.ContainerStatus) bool) {
		for i := range pods {
			for _, list := range [][]corev1.ContainerStatus{pods[i].Status.InitContainerStatuses, pods[i].Status.ContainerStatuses} {
				for j := range list {
					if !yield(&pods[i], &list[j]) {
						return
					}
				}
			}
		}
	}
}

// runningContainer returns the container that was started last among those that run.
func runningContainer(pods []corev1.Pod) *container {
	var last *container
	var started metav1.Time
	for pod, status := range statuses(pods) {
		if run := status.State.Running; run != nil && !run.StartedAt.Before(&started) {
			last, started = &container{pod: pod.Name, name: status.Name}, run.StartedAt
		}
	}
	return last
}

// outputsOf returns the outputs in the termination messages of pods that have succeeded.
// Outputs of containers that ended later replace earlier ones.
func outputsOf(pods []corev1.Pod) map[string]string {
	var ended []*corev1.ContainerStateTerminated
	for pod, status := range statuses(pods) {
		if t := status.State.Terminated; t != nil && pod.Status.Phase == corev1.PodSucceeded {
			ended = append(ended, t)
		}
	}
	slices.SortStableFunc(ended, func(a, b *corev1.ContainerStateTerminated) int { return a.FinishedAt.Compare(b.FinishedAt.Time) })
	outputs := map[string]string{}
	for _, t := range ended {
		maps.Copy(outputs, readOutputs(t.Message))
	}
	return outputs
}

// readOutputs reads the outputs in a termination message; one that is not a JSON object
// has none. Strings are taken as they are, other values as JSON.
func readOutputs(message string) map[string]string {
	var values map[string]json.RawMessage
	if json.Unmarshal([]byte(message), &values) != nil {
		return nil
	}
	outputs := make(map[string]string, len(values))
	for name, value := range values {
		var text string
		if json.Unmarshal(value, &text) != nil {
			text = string(value)
		}
		outputs[name] = text
	}
	return outputs
}

// problem is what keeps a pod from starting.
type problem struct {
	// kind is the same as long as the problem is the same.
	kind, text string
	// allowed is how long it may last; negative means until the step's timeout.
	allowed time.Duration
}

func (p *problem) result(o observation) result {
	r := result{Progress: running(p.kind, "waits: "+p.text), state: state{p.kind, o.now}}
	if o.state.Problem == p.kind {
		r.state.Since = o.state.Since
	}
	switch {
	case p.allowed < 0 || o.now.Sub(r.state.Since) < p.allowed:
		return r
	case p.allowed == 0:
		r.Message = "cannot start: " + p.text
	default:
		r.Message = fmt.Sprintf("has not started within %s: %s", p.allowed, p.text)
	}
	r.Phase, r.Outcome = steps.Failed, steps.Done // the Job still runs
	return r
}

// allowedFor says how long the reasons for which a container waits may last.
var allowedFor = map[string]time.Duration{
	"InvalidImageName":           0,
	"ErrImagePull":               grace,
	"ImagePullBackOff":           grace,
	"ErrImageNeverPull":          grace,
	"ImageInspectError":          grace,
	"RegistryUnavailable":        grace,
	"SignatureValidationFailed":  grace,
	"CreateContainerConfigError": grace,
	"CreateContainerError":       grace,
	"RunContainerError":          grace,
}

// problem returns what keeps one of a Job's pods from starting; nil if nothing does.
func (o observation) problem() *problem {
	for pod, status := range statuses(o.pods) {
		waits := status.State.Waiting
		if waits == nil || pod.DeletionTimestamp != nil {
			continue
		}
		if allowed, known := allowedFor[waits.Reason]; known {
			reason := strings.TrimSuffix(waits.Reason+": "+waits.Message, ": ")
			// kind leaves out the reason, as reasons such as ErrImagePull and
			// ImagePullBackOff alternate.
			return &problem{"container " + status.Name, fmt.Sprintf("container %s of pod %s does not start: %s", status.Name, pod.Name, reason), allowed}
		}
	}
	if pod := creating(o.pods); pod != nil && o.mountProblem != "" {
		p := &problem{"volume", fmt.Sprintf("the volumes of pod %s are not mounted: %s", pod.Name, o.mountProblem), -1}
		if strings.Contains(o.mountProblem, "not found") { // a Secret or a ConfigMap; a disk may still come
			p.allowed = grace
		}
		return p
	}
	if o.createProblem == "" || len(o.pods) > 0 {
		return nil
	}
	p := &problem{"pod", "it has no pod: " + o.createProblem, -1}
	for _, words := range []string{"is forbidden", "is invalid", "denied the request"} {
		// Pod Security, a missing ServiceAccount, or a webhook that denies the pod. For a quota
		// that is used up, and a webhook that does not answer, the step waits.
		if strings.Contains(o.createProblem, words) && !stepobject.IsQuota(o.createProblem) {
			p.allowed = grace
		}
	}
	return p
}

// creating returns a pod that waits for its volumes or its network; nil if there is none.
// The kubelet pulls the images after that, with the same reason ContainerCreating: only
// the condition tells the two apart. Kubernetes before 1.29 does not have it.
func creating(pods []corev1.Pod) *corev1.Pod {
	for i := range pods {
		waits := slices.ContainsFunc(pods[i].Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionFalse
		})
		if waits && pods[i].DeletionTimestamp == nil && pods[i].Status.Phase == corev1.PodPending {
			return &pods[i]
		}
	}
	return nil
}

// running says what a Job waits for, and how far its pods are.
func (o observation) running() steps.Progress {
	if conditionOf(o.job, batchv1.JobSuspended) != nil {
		return running("suspended", "is suspended")
	}
	for i := range o.pods {
		for _, condition := range o.pods[i].Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
				return running("schedule", fmt.Sprintf("waits: pod %s is not scheduled (%s): %s", o.pods[i].Name, condition.Reason, condition.Message))
			}
		}
	}
	for pod, status := range statuses(o.pods) {
		if waits := status.State.Waiting; waits != nil && waits.Reason == "CrashLoopBackOff" {
			code := ""
			if ended := status.LastTerminationState.Terminated; ended != nil {
				code = fmt.Sprintf(", last with exit code %d", ended.ExitCode)
			}
			return running("restart", fmt.Sprintf("waits: container %s of pod %s has ended %d times%s, and is started again", status.Name, pod.Name, status.RestartCount, code))
		}
	}
	if o.job.Status.Active == 0 && len(o.pods) == 0 {
		return running("start", "waits for its pod")
	}
	for i := range o.pods {
		if o.pods[i].Status.Phase == corev1.PodPending {
			return running("start", fmt.Sprintf("waits for pod %s to start", o.pods[i].Name))
		}
	}
	status := o.job.Status
	return running("running", fmt.Sprintf("is running (pods: %d active, %d succeeded, %d failed)", status.Active, status.Succeeded, status.Failed))
}
