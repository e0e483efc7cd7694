package check

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// livePods leaves out pods that are done or going away.
func livePods(pods []corev1.Pod) []corev1.Pod {
	var live []corev1.Pod
	for _, pod := range pods {
		if pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			live = append(live, pod)
		}
	}
	return live
}

func podReady(pod corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func containerStatus(pod corev1.Pod, name string) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == name {
			return &pod.Status.ContainerStatuses[i]
		}
	}
	return nil
}

// crashing tells whether a container has ended by itself, or waits to be
// restarted after that.
func crashing(status *corev1.ContainerStatus) bool {
	if status == nil {
		return false
	}
	if status.State.Terminated != nil {
		return true
	}
	waiting := status.State.Waiting
	return waiting != nil && (waiting.Reason == "CrashLoopBackOff" || waiting.Reason == "RunContainerError" || waiting.Reason == "CreateContainerError")
}

// settled is how long a container has to run after a failure until it is assumed
// to stay up.
const settled = 2 * time.Minute

// recentlyFailed tells whether a container runs again after a failure, which is
// less than settled ago.
func recentlyFailed(pod corev1.Pod, container string, now time.Time) bool {
	status := containerStatus(pod, container)
	if status == nil || status.State.Running == nil {
		return false
	}
	last := status.LastTerminationState.Terminated
	return last != nil && last.ExitCode != 0 && now.Sub(last.FinishedAt.Time) < settled
}

func lastExit(status *corev1.ContainerStatus) string {
	terminated := status.State.Terminated
	if terminated == nil {
		terminated = status.LastTerminationState.Terminated
	}
	switch {
	case terminated != nil && terminated.Signal != 0:
		return fmt.Sprintf("last killed by signal %d", terminated.Signal)
	case terminated != nil:
		return fmt.Sprintf("exit code %d%s", terminated.ExitCode, because(strings.TrimSpace(terminated.Message)))
	case status.State.Waiting != nil:
		return status.State.Waiting.Reason + because(status.State.Waiting.Message)
	}
	return "no exit recorded"
}

// podProblem says why a pod is not ready, in the words of its status.
func podProblem(pod corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return "not scheduled (" + condition.Reason + ")" + because(condition.Message)
		}
	}
	for _, status := range append(append([]corev1.ContainerStatus{}, pod.Status.InitContainerStatuses...), pod.Status.ContainerStatuses...) {
		switch {
		case status.State.Waiting != nil && status.State.Waiting.Reason != "PodInitializing":
			return fmt.Sprintf("container %s is waiting (%s)%s%s", status.Name, status.State.Waiting.Reason, restarts(status), because(status.State.Waiting.Message))
		case status.State.Terminated != nil && status.State.Terminated.ExitCode != 0:
			return fmt.Sprintf("container %s ended (exit code %d)%s", status.Name, status.State.Terminated.ExitCode, because(status.State.Terminated.Message))
		}
	}
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Running != nil && !status.Ready {
			return fmt.Sprintf("container %s runs, but its readiness probe does not succeed%s", status.Name, restarts(status))
		}
	}
	for _, gate := range pod.Spec.ReadinessGates {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == gate.ConditionType && condition.Status != corev1.ConditionTrue {
				return fmt.Sprintf("readiness gate %s is %s%s", gate.ConditionType, condition.Status, because(condition.Message))
			}
		}
	}
	phase := string(pod.Status.Phase)
	if phase == "" {
		phase = "not started"
	}
	return phase
}

func restarts(status corev1.ContainerStatus) string {
	if status.RestartCount == 0 {
		return ""
	}
	return fmt.Sprintf(" (restarted %s, %s)", count(int(status.RestartCount), "time"), lastExit(&status))
}

// starting tells whether a pod is still starting, and not stuck.
func starting(pod corev1.Pod) bool {
	for _, status := range append(append([]corev1.ContainerStatus{}, pod.Status.InitContainerStatuses...), pod.Status.ContainerStatuses...) {
		if status.RestartCount > 0 || status.State.Terminated != nil && status.State.Terminated.ExitCode != 0 {
			return false
		}
		if w := status.State.Waiting; w != nil && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
			return false
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return false
		}
	}
	return true
}
