package node

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podView is all that a pod's status is computed from.
type podView struct {
	pod       *corev1.Pod
	podIP     string // empty until the pod has its network
	mounted   bool   // all volumes have been made at least once
	hostIP    string
	startTime time.Time
	now       time.Time
	// init and main have a status for each container of the spec, in its order.
	init, main []corev1.ContainerStatus
	// reason and message of a pod that the node failed as a whole.
	failedReason, failedMessage string
	// ended says that all of a deleted pod's processes are gone.
	ended bool
}

// podStatus computes the status of a pod. Conditions that belong to others, such
// as those that readiness gates look at, are kept as they are in view.pod.
func podStatus(view podView) corev1.PodStatus {
	pod := view.pod
	status := corev1.PodStatus{
		ObservedGeneration:    pod.Generation,
		HostIP:                view.hostIP,
		HostIPs:               []corev1.HostIP{{IP: view.hostIP}},
		QOSClass:              pod.Status.QOSClass,
		InitContainerStatuses: view.init,
		ContainerStatuses:     view.main,
		NominatedNodeName:     pod.Status.NominatedNodeName,
	}
	start := metav1.NewTime(view.startTime)
	status.StartTime = &start
	if view.podIP != "" {
		status.PodIP = view.podIP
		status.PodIPs = []corev1.PodIP{{IP: view.podIP}}
	}
	status.Phase = phase(pod, view.init, view.main)
	if view.failedReason != "" {
		status.Phase, status.Reason, status.Message = corev1.PodFailed, view.failedReason, view.failedMessage
	}
	if view.ended && status.Phase != corev1.PodSucceeded && status.Phase != corev1.PodFailed {
		// No container runs, and none will.
		status.Phase = corev1.PodSucceeded
		for _, c := range slices.Concat(view.init, view.main) {
			if c.State.Terminated != nil && c.State.Terminated.ExitCode != 0 {
				status.Phase = corev1.PodFailed
			}
		}
	}
	status.Conditions = conditions(view, status.Phase)
	return status
}

// phase is the kubelet's rule for restartable and finished containers.
func phase(pod *corev1.Pod, init, main []corev1.ContainerStatus) corev1.PodPhase {
	policy := pod.Spec.RestartPolicy
	if !initialized(pod, init) {
		if policy == corev1.RestartPolicyNever && slices.ContainsFunc(init, func(c corev1.ContainerStatus) bool {
			return c.State.Terminated != nil && c.State.Terminated.ExitCode != 0
		}) {
			return corev1.PodFailed
		}
		return corev1.PodPending
	}
	var waiting, running, stopped, succeeded int
	for _, c := range main {
		switch {
		case c.State.Running != nil:
			running++
		case c.State.Terminated != nil:
			stopped++
			if c.State.Terminated.ExitCode == 0 {
				succeeded++
			}
		case c.LastTerminationState.Terminated != nil:
			stopped++ // It waits to be started again.
		default:
			waiting++
		}
	}
	switch {
	case waiting > 0:
		return corev1.PodPending
	case running > 0 || stopped == 0:
		return corev1.PodRunning
	case policy == corev1.RestartPolicyAlways:
		return corev1.PodRunning
	case stopped == succeeded:
		return corev1.PodSucceeded
	case policy == corev1.RestartPolicyNever:
		return corev1.PodFailed
	}
	return corev1.PodRunning
}

// initialized reports whether all init containers have done their part: exited with
// 0 or, for sidecars, started.
func initialized(pod *corev1.Pod, init []corev1.ContainerStatus) bool {
	for i, c := range init {
		if isSidecar(&pod.Spec.InitContainers[i]) {
			if c.Started == nil || !*c.Started {
				return false
			}
			continue
		}
		if c.State.Terminated == nil || c.State.Terminated.ExitCode != 0 {
			return false
		}
	}
	return true
}

// isSidecar reports whether an init container runs as long as the pod.
func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// conditions returns the conditions that a kubelet sets, and those that others have
// set.
func conditions(view podView, phase corev1.PodPhase) []corev1.PodCondition {
	pod := view.pod
	finished := phase == corev1.PodSucceeded || phase == corev1.PodFailed
	condition := func(kind corev1.PodConditionType, ok bool, reason, message string) corev1.PodCondition {
		c := corev1.PodCondition{
			Type: kind, Status: corev1.ConditionFalse, Reason: reason, Message: message,
			ObservedGeneration: pod.Generation, LastTransitionTime: metav1.NewTime(view.now),
		}
		if ok {
			c.Status, c.Reason, c.Message = corev1.ConditionTrue, "", ""
		}
		return c
	}
	done := initialized(pod, view.init)
	var uninitialized, unready []string
	for i, c := range view.init {
		if isSidecar(&pod.Spec.InitContainers[i]) {
			if !c.Ready {
				unready = append(unready, c.Name)
			}
		} else if c.State.Terminated == nil || c.State.Terminated.ExitCode != 0 {
			uninitialized = append(uninitialized, c.Name)
		}
	}
	for _, c := range view.main {
		if !c.Ready {
			unready = append(unready, c.Name)
		}
	}
	reason, message := "ContainersNotReady", fmt.Sprintf("containers with unready status: [%s]", strings.Join(unready, " "))
	if finished {
		reason, message = "PodCompleted", ""
		if phase == corev1.PodFailed {
			reason = "PodFailed"
		}
	}
	containersReady := condition(corev1.ContainersReady, len(unready) == 0 && !finished, reason, message)
	ready := containersReady
	ready.Type = corev1.PodReady
	if containersReady.Status == corev1.ConditionTrue {
		if gates := closedGates(pod); len(gates) > 0 {
			ready = condition(corev1.PodReady, false, "ReadinessGatesNotReady", strings.Join(gates, ", "))
		}
	}
	set := []corev1.PodCondition{
		condition(corev1.PodReadyToStartContainers, view.podIP != "" && view.mounted && !finished && !view.ended, "", ""),
		condition(corev1.PodInitialized, done || phase == corev1.PodSucceeded, "ContainersNotInitialized",
			fmt.Sprintf("containers with incomplete status: [%s]", strings.Join(uninitialized, " "))),
		ready,
		containersReady,
		condition(corev1.PodScheduled, true, "", ""),
	}
	for _, have := range pod.Status.Conditions {
		i := slices.IndexFunc(set, func(c corev1.PodCondition) bool { return c.Type == have.Type })
		if i < 0 {
			set = append(set, have)
			continue
		}
		if set[i].Status == have.Status {
			set[i].LastTransitionTime = have.LastTransitionTime
		}
	}
	return set
}

// closedGates names the readiness gates of a pod whose condition is not True.
func closedGates(pod *corev1.Pod) []string {
	var closed []string
	for _, gate := range pod.Spec.ReadinessGates {
		i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == gate.ConditionType })
		switch {
		case i < 0:
			closed = append(closed, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType))
		case pod.Status.Conditions[i].Status != corev1.ConditionTrue:
			closed = append(closed, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %s", gate.ConditionType, pod.Status.Conditions[i].Status))
		}
	}
	return closed
}

// restarts reports whether a container that ended with exitCode is started again.
func restarts(policy corev1.RestartPolicy, exitCode int32) bool {
	switch policy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return exitCode != 0
	}
	return true
}
