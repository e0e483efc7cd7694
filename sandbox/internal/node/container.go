package node

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"path/filepath"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/image"
)

// container is the state of one container of a pod. Its pod's worker owns it.
type container struct {
	spec corev1.Container
	init bool

	// proc is set while the container runs.
	proc  *process
	log   *logFile
	image image.Image
	id    string
	// stop ends the probes of the present run.
	stop context.CancelFunc

	waiting    *corev1.ContainerStateWaiting
	terminated *corev1.ContainerStateTerminated
	last       *corev1.ContainerStateTerminated
	restarts   int32
	started    bool
	ready      bool
	// killing says that the present run has been told to end.
	killing bool

	// retryAt is when a container that does not run may be tried again.
	retryAt   time.Time
	crashes   backOff
	pulls     backOff
	configErr string // reported last
}

func newContainer(spec corev1.Container, init bool) *container {
	return &container{
		spec: spec, init: init,
		waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"},
	}
}

// sidecar reports whether it is an init container that runs as long as the pod.
func (c *container) sidecar() bool { return c.init && isSidecar(&c.spec) }

// policy is the restart policy that applies to the container.
func (c *container) policy(pod corev1.RestartPolicy) corev1.RestartPolicy {
	switch {
	case c.sidecar():
		return corev1.RestartPolicyAlways
	case c.init && pod == corev1.RestartPolicyAlways:
		return corev1.RestartPolicyOnFailure
	}
	return pod
}

// over reports whether the container has ended and will not be started again.
func (c *container) over(pod corev1.RestartPolicy) bool {
	return c.proc == nil && c.terminated != nil && !restarts(c.policy(pod), c.terminated.ExitCode)
}

// status is the container's part of the pod's status.
func (c *container) status() corev1.ContainerStatus {
	started := c.started
	s := corev1.ContainerStatus{
		Name:         c.spec.Name,
		Image:        c.spec.Image,
		ImageID:      c.image.ID,
		ContainerID:  c.id,
		RestartCount: c.restarts,
		Ready:        c.ready,
		Started:      &started,
	}
	if c.last != nil {
		s.LastTerminationState.Terminated = c.last
	}
	switch {
	case c.proc != nil:
		s.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(c.proc.started)}
	case c.terminated != nil && c.waiting == nil:
		s.State.Terminated = c.terminated
		if c.init && !c.sidecar() {
			s.Ready = c.terminated.ExitCode == 0
		}
	default:
		s.State.Waiting = c.waiting
	}
	return s
}

// wait sets the container's state to waiting. The state that it terminated in
// before, if any, becomes its last state.
func (c *container) wait(reason, message string) {
	if c.terminated != nil {
		c.last = c.terminated
	}
	c.waiting = &corev1.ContainerStateWaiting{Reason: reason, Message: message}
}

// logPath is the log of one run, counted by restarts.
func logPath(podLogs, name string, run int32) string {
	return filepath.Join(podLogs, name, strconv.Itoa(int(run))+".log")
}

func newContainerID() string {
	var b [32]byte
	// It never fails.
	_, _ = rand.Read(b[:])
	return "sandbox://" + hex.EncodeToString(b[:])
}
