package node

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// statusWriter writes one pod's status to the API server, in a goroutine of its
// own: a server that does not answer must not hold up the pod.
type statusWriter struct {
	n   *node
	log *slog.Logger

	mu sync.Mutex
	// server is the newest version of the pod known to be on the server.
	server   *corev1.Pod
	wanted   *corev1.PodStatus
	finalise bool

	wake   chan struct{}
	ctx    context.Context
	cancel context.CancelFunc
}

func newStatusWriter(n *node, log *slog.Logger, pod *corev1.Pod) *statusWriter {
	ctx, cancel := context.WithCancel(context.Background())
	return &statusWriter{n: n, log: log, server: pod, wake: make(chan struct{}, 1), ctx: ctx, cancel: cancel}
}

// observe takes a version of the pod from the watch.
func (s *statusWriter) observe(pod *corev1.Pod) {
	s.mu.Lock()
	if newer(pod, s.server) {
		s.server = pod
	}
	s.mu.Unlock()
	s.kick()
}

// want sets what the status should be. finalise says that the pod's processes have
// ended, so that the object may be deleted.
func (s *statusWriter) want(status corev1.PodStatus, finalise bool) {
	s.mu.Lock()
	s.wanted, s.finalise = &status, finalise
	s.mu.Unlock()
	s.kick()
}

func (s *statusWriter) kick() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// close ends run; a status that is not written by then stays unwritten.
func (s *statusWriter) close() { s.cancel() }

// run writes until close.
func (s *statusWriter) run() {
	for delay := time.Duration(0); ; {
		if delay == 0 {
			select {
			case <-s.ctx.Done():
				return
			case <-s.wake:
			}
		} else if !sleep(s.ctx, delay) {
			return
		}
		err := s.write()
		switch {
		case err == nil, apierrors.IsNotFound(err):
			delay = 0
		case s.ctx.Err() != nil:
			return
		default:
			delay = min(max(2*delay, 200*time.Millisecond), 3*time.Second)
			s.log.Warn("cannot write the pod's status; trying again", "in", delay, "err", err)
		}
	}
}

func (s *statusWriter) write() error {
	s.mu.Lock()
	server, wanted, finalise := s.server, s.wanted, s.finalise
	s.mu.Unlock()
	if wanted == nil {
		return nil
	}
	pods := s.n.client.CoreV1().Pods(server.Namespace)
	ctx, cancel := context.WithTimeout(s.ctx, requestTimeout)
	defer cancel()
	patch, changed, err := statusPatch(server, *wanted)
	if err != nil {
		return fmt.Errorf("pod status: %w", err)
	}
	if changed {
		now, err := pods.Patch(ctx, server.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		if err != nil {
			return err
		}
		s.mu.Lock()
		if newer(now, s.server) {
			s.server = now
		}
		s.mu.Unlock()
	}
	if finalise {
		err := pods.Delete(ctx, server.Name, metav1.DeleteOptions{
			GracePeriodSeconds: new(int64),
			Preconditions:      &metav1.Preconditions{UID: &server.UID},
		})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return err
		}
	}
	return nil
}

// statusPatch returns the patch from the status on the server to the wanted one.
// Conditions that others set are the same in both, and so never in the patch.
func statusPatch(server *corev1.Pod, wanted corev1.PodStatus) (patch []byte, changed bool, err error) {
	from := &corev1.Pod{Status: server.Status}
	to := &corev1.Pod{Status: wanted}
	to.Status.Conditions = mergeConditions(server.Status.Conditions, wanted.Conditions)
	// The patch must not remove fields that this node does not set.
	to.Status.Resize = server.Status.Resize
	if to.Status.QOSClass == "" {
		to.Status.QOSClass = server.Status.QOSClass
	}
	a, err := json.Marshal(from)
	if err != nil {
		return nil, false, err
	}
	b, err := json.Marshal(to)
	if err != nil {
		return nil, false, err
	}
	patch, err = strategicpatch.CreateTwoWayMergePatch(a, b, corev1.Pod{})
	if err != nil {
		return nil, false, err
	}
	if string(patch) == "{}" {
		return nil, false, nil
	}
	// The UID makes sure that it is this pod and not another of the same name.
	var object map[string]any
	if err := json.Unmarshal(patch, &object); err != nil {
		return nil, false, err
	}
	object["metadata"] = map[string]any{"uid": server.UID}
	patch, err = json.Marshal(object)
	return patch, true, err
}

// ownConditions are the condition types that this node sets.
var ownConditions = map[corev1.PodConditionType]bool{
	corev1.PodReadyToStartContainers: true, corev1.PodInitialized: true, corev1.PodReady: true,
	corev1.ContainersReady: true, corev1.PodScheduled: true,
}

// mergeConditions takes the node's conditions from wanted and all others from
// the server.
func mergeConditions(server, wanted []corev1.PodCondition) []corev1.PodCondition {
	var merged []corev1.PodCondition
	transition := map[corev1.PodConditionType]corev1.PodCondition{}
	for _, c := range server {
		if ownConditions[c.Type] {
			transition[c.Type] = c
		} else {
			merged = append(merged, c)
		}
	}
	for _, c := range wanted {
		if !ownConditions[c.Type] {
			continue
		}
		if was, ok := transition[c.Type]; ok && was.Status == c.Status {
			c.LastTransitionTime = was.LastTransitionTime
		}
		merged = append(merged, c)
	}
	return merged
}

// newer reports whether a is a later version than b.
func newer(a, b *corev1.Pod) bool {
	x, errX := strconv.ParseUint(a.ResourceVersion, 10, 64)
	y, errY := strconv.ParseUint(b.ResourceVersion, 10, 64)
	return errX != nil || errY != nil || x >= y
}
