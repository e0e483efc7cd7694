package check

import (
	"fmt"
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

// lastFailure returns how a container of a pod has failed that was started again after a time;
// nil if none has.
func lastFailure(pod corev1.Pod, after time.Time) *corev1.ContainerStateTerminated {
	for _, status := range pod.Status.ContainerStatuses {
		now, last := status.State.Running, status.LastTerminationState.Terminated
		if now != nil && now.StartedAt.After(after) && last != nil && last.ExitCode != 0 {
			return last
		}
	}
	return nil
}

// podState is one line on a pod that is not ready: what its first container waits for, or how
// it ended, as `kubectl get pods` says it. `kubectl describe pod` has the rest.
func podState(pod corev1.Pod) string {
	for _, status := range pod.Status.ContainerStatuses {
		switch {
		case status.State.Waiting != nil:
			return fmt.Sprintf("is not ready: %s%s", status.State.Waiting.Reason, because(status.State.Waiting.Message))
		case status.State.Terminated != nil:
			return fmt.Sprintf("is not ready: exit code %d", status.State.Terminated.ExitCode)
		}
	}
	return "is not ready: " + string(pod.Status.Phase)
}
