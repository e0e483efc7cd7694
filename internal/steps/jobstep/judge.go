package jobstep

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// grace is how long a problem that keeps a pod from starting may last: registries have
// hiccups, Secrets come a moment later, and pods of the last version leave their quota.
const grace = time.Minute

// seen is what an operation has read of a Job.
type seen struct {
	job *batchv1.Job
	// pods are the pods of the Job.
	pods []corev1.Pod
	// refused is the last message about a pod that could not be created; empty if the Job
	// has pods.
	refused string
	// unmounted is the kubelet's last message about the volumes of a pod that waits for
	// them.
	unmounted string
	state     state
	now       time.Time
}

// state is what the next operation has to know of a Job.
type state struct {
	// Problem is what keeps a pod from starting, and Since when that was seen first.
	Problem string    `json:"problem,omitempty"`
	Since   time.Time `json:"since,omitzero"`
}

// verdict is the outcome of a look at a Job.
type verdict struct {
	phase   steps.Phase
	message string
	waiting string
	state   state
	outputs map[string]string
	// mayRun is true for a failed step whose Job still runs.
	mayRun bool
	// log is the container whose last log lines tell more.
	log *container
}

// container is a container of a pod.
type container struct {
	pod, name string
	// message is its termination message.
	message string
}

// judge tells what has become of a Job. It makes no request.
func judge(s seen) verdict {
	job := s.job
	if failure := conditionOf(job, batchv1.JobFailed); failure != nil {
		return judgeFailed(s, failure)
	}
	if conditionOf(job, batchv1.JobComplete) != nil {
		return verdict{phase: steps.Successful, message: "has completed", outputs: outputsOf(s.pods)}
	}
	if job.DeletionTimestamp != nil {
		return verdict{phase: steps.Failed, message: "is being deleted, before it has ended; " + notAgain}
	}
	running := verdict{phase: steps.Running, log: runningContainer(s.pods)}
	if target := conditionOf(job, batchv1.JobFailureTarget); target != nil {
		running.waiting, running.message = "end", "fails, and its pods are ended"+becauseOf(target)
		return running
	}
	if problem := problemOf(s); problem != nil {
		return problem.judge(s)
	}
	running.waiting, running.message = describe(s)
	return running
}

// notAgain says why a Job that is gone is not made anew.
const notAgain = "it is not made again, as its work may be half done: abort and retry the canary, or set retries"

func conditionOf(job *batchv1.Job, of batchv1.JobConditionType) *batchv1.JobCondition {
	for i, condition := range job.Status.Conditions {
		if condition.Type == of && condition.Status == corev1.ConditionTrue {
			return &job.Status.Conditions[i]
		}
	}
	return nil
}

func becauseOf(condition *batchv1.JobCondition) string {
	switch {
	case condition.Reason == "" && condition.Message == "":
		return ""
	case condition.Message == "":
		return " (" + condition.Reason + ")"
	default:
		return fmt.Sprintf(" (%s: %s)", condition.Reason, strings.TrimSuffix(condition.Message, "."))
	}
}

func judgeFailed(s seen, failure *batchv1.JobCondition) verdict {
	v := verdict{phase: steps.Failed, message: "has failed" + becauseOf(failure)}
	pod, status := failedContainer(s.pods)
	switch {
	case status != nil:
		ended := status.State.Terminated
		v.message += fmt.Sprintf("; container %s of pod %s ended with exit code %d", status.Name, pod.Name, ended.ExitCode)
		if ended.Reason != "" && ended.Reason != "Error" {
			v.message += " (" + ended.Reason + ")"
		}
		v.log = &container{pod.Name, status.Name, ended.Message}
	case pod != nil:
		v.message += fmt.Sprintf("; pod %s has failed", pod.Name)
		if pod.Status.Reason != "" || pod.Status.Message != "" {
			v.message += fmt.Sprintf(" (%s)", strings.Trim(pod.Status.Reason+": "+pod.Status.Message, ": "))
		}
	case len(s.pods) == 0:
		v.message += "; its pods are gone, and their logs with them"
	}
	return v
}

// failedContainer returns the container that has failed last, and its pod. If no container
// has failed but a pod has, it returns that pod alone.
func failedContainer(pods []corev1.Pod) (*corev1.Pod, *corev1.ContainerStatus) {
	var pod *corev1.Pod
	var last *corev1.ContainerStatus
	for i := range pods {
		for _, status := range allStatuses(&pods[i]) {
			ended := status.State.Terminated
			if ended != nil && ended.ExitCode != 0 && (last == nil || !ended.FinishedAt.Before(&last.State.Terminated.FinishedAt)) {
				pod, last = &pods[i], status
			}
		}
	}
	for i := range pods {
		if last == nil && pods[i].Status.Phase == corev1.PodFailed {
			pod = &pods[i]
		}
	}
	return pod, last
}

// allStatuses returns the statuses of a pod's initContainers and containers.
func allStatuses(pod *corev1.Pod) []*corev1.ContainerStatus {
	var all []*corev1.ContainerStatus
	for i := range pod.Status.InitContainerStatuses {
		all = append(all, &pod.Status.InitContainerStatuses[i])
	}
	for i := range pod.Status.ContainerStatuses {
		all = append(all, &pod.Status.ContainerStatuses[i])
	}
	return all
}

// runningContainer returns the container that was started last among those that run.
func runningContainer(pods []corev1.Pod) *container {
	var last *container
	var started time.Time
	for i := range pods {
		for _, status := range allStatuses(&pods[i]) {
			if run := status.State.Running; run != nil && (last == nil || !run.StartedAt.Time.Before(started)) {
				last, started = &container{pod: pods[i].Name, name: status.Name}, run.StartedAt.Time
			}
		}
	}
	return last
}

// outputsOf returns the outputs in the termination messages of pods that have succeeded.
// Outputs of containers that ended later replace earlier ones.
func outputsOf(pods []corev1.Pod) map[string]string {
	var ended []*corev1.ContainerStateTerminated
	for i := range pods {
		for _, status := range allStatuses(&pods[i]) {
			if t := status.State.Terminated; t != nil && pods[i].Status.Phase == corev1.PodSucceeded {
				ended = append(ended, t)
			}
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

func (p *problem) judge(s seen) verdict {
	v := verdict{phase: steps.Running, message: "waits: " + p.text, waiting: p.kind, state: state{p.kind, s.now}}
	if s.state.Problem == p.kind {
		v.state.Since = s.state.Since
	}
	switch {
	case p.allowed < 0 || s.now.Sub(v.state.Since) < p.allowed:
		return v
	case p.allowed == 0:
		v.message = "cannot start: " + p.text
	default:
		v.message = fmt.Sprintf("has not started within %s: %s", p.allowed, p.text)
	}
	v.phase, v.mayRun = steps.Failed, true
	return v
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

// problemOf returns what keeps one of a Job's pods from starting; nil if nothing does.
func problemOf(s seen) *problem {
	for i := range s.pods {
		pod := &s.pods[i]
		for _, status := range allStatuses(pod) {
			waits := status.State.Waiting
			if waits == nil || pod.DeletionTimestamp != nil {
				continue
			}
			allowed, known := allowedFor[waits.Reason]
			if !known {
				continue
			}
			text := fmt.Sprintf("container %s of pod %s does not start: %s", status.Name, pod.Name, waits.Reason)
			if waits.Message != "" {
				text += ": " + waits.Message
			}
			// kind leaves out the reason, as reasons such as ErrImagePull and
			// ImagePullBackOff alternate.
			return &problem{"container " + status.Name, text, allowed}
		}
	}
	if pod := creating(s.pods); pod != nil && s.unmounted != "" {
		p := &problem{"volume", fmt.Sprintf("the volumes of pod %s are not mounted: %s", pod.Name, s.unmounted), -1}
		if strings.Contains(s.unmounted, "not found") { // a Secret or a ConfigMap; a disk may still come
			p.allowed = grace
		}
		return p
	}
	if s.refused == "" || len(s.pods) > 0 {
		return nil
	}
	p := &problem{"pod", "it has no pod: " + s.refused, -1}
	for _, words := range []string{"is forbidden", "is invalid", "denied the request"} {
		// A quota, Pod Security, a missing ServiceAccount, or a webhook that denies the
		// pod. For a webhook that does not answer, the step waits.
		if strings.Contains(s.refused, words) {
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

// describe says what a Job waits for, and how far its pods are.
func describe(s seen) (waiting, message string) {
	if conditionOf(s.job, batchv1.JobSuspended) != nil {
		return "suspended", "is suspended"
	}
	for i := range s.pods {
		for _, condition := range s.pods[i].Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
				return "schedule", fmt.Sprintf("waits: pod %s is not scheduled (%s): %s", s.pods[i].Name, condition.Reason, condition.Message)
			}
		}
	}
	for i := range s.pods {
		for _, status := range allStatuses(&s.pods[i]) {
			waits := status.State.Waiting
			if waits == nil || waits.Reason != "CrashLoopBackOff" {
				continue
			}
			code := ""
			if ended := status.LastTerminationState.Terminated; ended != nil {
				code = fmt.Sprintf(", last with exit code %d", ended.ExitCode)
			}
			return "restart", fmt.Sprintf("waits: container %s of pod %s has ended %d times%s, and is started again", status.Name, s.pods[i].Name, status.RestartCount, code)
		}
	}
	if s.job.Status.Active == 0 && len(s.pods) == 0 {
		return "start", "waits for its pod"
	}
	for i := range s.pods {
		if s.pods[i].Status.Phase == corev1.PodPending {
			return "start", fmt.Sprintf("waits for pod %s to start", s.pods[i].Name)
		}
	}
	parts := []string{}
	for _, part := range []struct {
		count int32
		words string
	}{{s.job.Status.Active, "running"}, {s.job.Status.Succeeded, "succeeded"}, {s.job.Status.Failed, "failed"}} {
		if part.count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.count, part.words))
		}
	}
	return "running", "is running (pods: " + cmp.Or(strings.Join(parts, ", "), "none yet") + ")"
}
