package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/podnet"
)

const (
	// setUpRetry is how long a pod waits for the next attempt after its network or
	// volumes failed. A change of an object that it refers to ends the wait.
	setUpRetry = 5 * time.Second
	// shutdownGrace is the grace period of containers when the node itself stops.
	shutdownGrace = 2 * time.Second
	// minimumGrace is the grace period of a container whose preStop hook used up
	// the pod's.
	minimumGrace = 2 * time.Second
)

// worker runs one pod. All of its state belongs to the goroutine of run; other
// goroutines send it work.
type worker struct {
	n       *node
	log     *slog.Logger
	uid     types.UID
	key     types.NamespacedName
	dir     string
	logs    string
	mailbox *mailbox
	writer  *statusWriter
	// ctx ends when the pod begins to stop.
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}

	pod       *corev1.Pod
	startTime time.Time
	ip        string
	network   *podnet.Pod
	// closeHostPorts is set while the pod's host ports are open.
	closeHostPorts context.CancelFunc
	init           []*container
	main           []*container
	tokens         *tokens

	volumes     map[string]payload
	volumesGood bool // all exist, and no object they are made from has changed since
	complete    bool // all volumes have been made at least once
	retryAt     time.Time
	lastFailure string // of network or volumes, reported last
	wakeAt      time.Time

	failedReason, failedMessage string
	stopping                    bool
	killTimer                   *time.Timer
	killAt                      time.Time
	kill                        chan struct{} // closed when the grace period is over
	stopped                     bool
	gone                        bool // the object no longer exists
	quit                        bool // the node stops
}

func newWorker(n *node, pod *corev1.Pod) *worker {
	ctx, cancel := context.WithCancel(context.Background())
	w := &worker{
		n:       n,
		log:     n.cfg.Log.With("pod", pod.Namespace+"/"+pod.Name),
		uid:     pod.UID,
		key:     types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name},
		dir:     filepath.Join(n.cfg.podsDir(), string(pod.UID)),
		logs:    filepath.Join(n.cfg.logsDir(), pod.Namespace+"_"+pod.Name+"_"+string(pod.UID)),
		mailbox: newMailbox(),
		ctx:     ctx, cancel: cancel,
		done:      make(chan struct{}),
		pod:       pod,
		startTime: time.Now(),
		tokens:    &tokens{client: n.client, pod: pod, cache: map[tokenKey]heldToken{}},
		volumes:   map[string]payload{},
		kill:      make(chan struct{}),
	}
	w.writer = newStatusWriter(n, w.log, pod)
	for _, spec := range pod.Spec.InitContainers {
		w.init = append(w.init, newContainer(spec, true))
	}
	for _, spec := range pod.Spec.Containers {
		w.main = append(w.main, newContainer(spec, false))
	}
	if pod.Status.StartTime != nil {
		w.startTime = pod.Status.StartTime.Time
		w.restore()
	}
	return w
}

// restore takes over the pod's status from an earlier run of the node. The pod's
// processes are gone, as after a reboot.
func (w *worker) restore() {
	statuses := map[string]corev1.ContainerStatus{}
	for _, s := range slices.Concat(w.pod.Status.InitContainerStatuses, w.pod.Status.ContainerStatuses) {
		statuses[s.Name] = s
	}
	for _, c := range w.containers() {
		s, ok := statuses[c.spec.Name]
		if !ok || s.ContainerID == "" || c.init && !isFinished(w.pod.Status.Phase) {
			// Init containers run again: what they did may be gone.
			continue
		}
		c.id, c.restarts, c.last = s.ContainerID, s.RestartCount, s.LastTerminationState.Terminated
		c.terminated = s.State.Terminated
		if s.State.Running != nil {
			c.terminated = &corev1.ContainerStateTerminated{
				ExitCode: 137, Reason: "ContainerStatusUnknown", Message: "The node stopped while the container ran",
				StartedAt: s.State.Running.StartedAt, FinishedAt: metav1.Now(), ContainerID: s.ContainerID,
			}
		}
		if c.terminated != nil {
			c.waiting = nil
		}
	}
}

func (w *worker) containers() []*container { return slices.Concat(w.init, w.main) }

// ask runs f in the worker and waits for it; it reports whether f ran.
func (w *worker) ask(f func()) bool {
	ran := make(chan struct{})
	w.mailbox.send(func() { f(); close(ran) })
	select {
	case <-ran:
		return true
	case <-w.done:
		return false
	}
}

// update gives the worker the pod as the API server has it now.
func (w *worker) update(pod *corev1.Pod) {
	w.mailbox.send(func() {
		if !maps.Equal(w.pod.Labels, pod.Labels) || !maps.Equal(w.pod.Annotations, pod.Annotations) {
			w.stale() // A volume may contain them.
		}
		if len(pod.Spec.EphemeralContainers) > len(w.pod.Spec.EphemeralContainers) {
			w.event(nil, corev1.EventTypeWarning, "UnsupportedPod", "the sandbox's node does not run ephemeral containers; use kubectl exec")
		}
		w.pod = pod
		w.writer.observe(pod)
	})
}

// refresh tells the worker that an object changed that the pod may refer to.
func (w *worker) refresh() { w.mailbox.send(w.stale) }

func (w *worker) stale() {
	w.volumesGood, w.retryAt = false, time.Time{}
	for _, c := range w.containers() {
		if c.configErr != "" {
			c.retryAt = time.Time{}
		}
	}
}

// remove tells the worker that the pod's object is gone: the pod is stopped without
// a grace period.
func (w *worker) remove() {
	w.mailbox.send(func() {
		w.gone = true
		w.stop(0)
	})
}

// shutdown tells the worker that the node stops.
func (w *worker) shutdown() {
	w.mailbox.send(func() {
		w.quit = true
		w.stop(shutdownGrace)
	})
}

// run is the worker's goroutine. It ends when the pod's object is gone or the
// node stops, with nothing left of the pod.
func (w *worker) run() {
	defer close(w.done)
	defer w.cancel()
	go w.writer.run()
	defer w.writer.close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-w.mailbox.wake:
		case <-timer.C:
		}
		for _, f := range w.mailbox.take() {
			f()
		}
		w.wakeAt = time.Time{}
		w.reconcile()
		if w.stopped && (w.gone || w.quit) {
			w.removeFiles()
			return
		}
		status := podStatus(w.view())
		w.writer.want(status, w.stopped && w.pod.DeletionTimestamp != nil)
		if w.wakeAt.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(w.wakeAt))
		}
	}
}

// wake makes sure that the pod is reconciled again no later than at.
func (w *worker) wake(at time.Time) {
	if w.wakeAt.IsZero() || at.Before(w.wakeAt) {
		w.wakeAt = at
	}
}

func (w *worker) view() podView {
	v := podView{
		pod: w.pod, podIP: w.ip, mounted: w.complete, hostIP: w.n.cfg.NodeIP.String(), startTime: w.startTime, now: time.Now(),
		failedReason: w.failedReason, failedMessage: w.failedMessage,
		ended: w.stopped && w.pod.DeletionTimestamp != nil,
	}
	for _, c := range w.init {
		v.init = append(v.init, c.status())
	}
	for _, c := range w.main {
		v.main = append(v.main, c.status())
	}
	return v
}

// reconcile takes the next step towards the pod's desired state.
func (w *worker) reconcile() {
	if w.pod.DeletionTimestamp != nil && !w.stopped {
		w.stop(deletionGrace(w.pod))
	}
	if w.stopping {
		w.finishStop()
		return
	}
	if w.overDeadline() {
		w.failedReason, w.failedMessage = "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"
	}
	if v := w.view(); w.failedReason != "" || isFinished(phase(w.pod, v.init, v.main)) {
		w.stop(podGrace(w.pod))
		w.finishStop()
		return
	}
	if !w.setUp() {
		return
	}
	for _, c := range w.init {
		if c.over(w.pod.Spec.RestartPolicy) {
			continue
		}
		w.ensure(c)
		if !c.sidecar() || !c.started {
			return
		}
	}
	for _, c := range w.main {
		if !c.over(w.pod.Spec.RestartPolicy) {
			w.ensure(c)
		}
	}
}

func isFinished(p corev1.PodPhase) bool { return p == corev1.PodSucceeded || p == corev1.PodFailed }

func podGrace(pod *corev1.Pod) time.Duration {
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return 30 * time.Second
}

func deletionGrace(pod *corev1.Pod) time.Duration {
	if s := pod.DeletionGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return podGrace(pod)
}

func (w *worker) overDeadline() bool {
	seconds := w.pod.Spec.ActiveDeadlineSeconds
	if seconds == nil {
		return false
	}
	deadline := w.startTime.Add(time.Duration(*seconds) * time.Second)
	if time.Now().Before(deadline) {
		w.wake(deadline)
		return false
	}
	return true
}

// setUp makes the pod's network and volumes and keeps the volumes up to date; it
// reports whether containers may start. A step that fails is tried again.
func (w *worker) setUp() bool {
	if time.Now().Before(w.retryAt) && !w.volumesGood {
		w.wake(w.retryAt)
		return w.complete
	}
	if what := unsupported(w.pod); len(what) > 0 {
		w.setUpFailed("UnsupportedPod", fmt.Errorf("the sandbox's node does not support %v; remove it from the pod's spec", what))
		return false
	}
	if w.network == nil {
		if err := w.setUpNetwork(); err != nil {
			w.setUpFailed("FailedCreatePodSandBox", err)
			return false
		}
	}
	if err := w.openHostPorts(); err != nil {
		w.setUpFailed("FailedCreatePodSandBox", err)
		return false
	}
	if due := w.tokens.nextRenewal(); !due.IsZero() {
		if !time.Now().Before(due) {
			w.volumesGood = false
		}
		defer w.wakeForTokens()
	}
	if w.volumesGood {
		return true
	}
	if err := w.writeVolumes(); err != nil {
		w.setUpFailed("FailedMount", err)
		// Volumes that were complete before keep their old content.
		return w.complete
	}
	w.volumesGood, w.complete, w.lastFailure = true, true, ""
	w.wakeForTokens()
	return true
}

func (w *worker) wakeForTokens() {
	if due := w.tokens.nextRenewal(); !due.IsZero() {
		w.wake(due)
	}
}

func (w *worker) setUpFailed(reason string, err error) {
	w.retryAt = time.Now().Add(setUpRetry)
	w.wake(w.retryAt)
	if err.Error() == w.lastFailure {
		return
	}
	w.lastFailure = err.Error()
	w.log.Warn("pod set-up", "reason", reason, "err", err)
	w.event(nil, corev1.EventTypeWarning, reason, err.Error())
}

func (w *worker) setUpNetwork() error {
	ip, err := w.n.addresses.Next()
	if err != nil {
		return fmt.Errorf("pod addresses: %w; delete some pods", err)
	}
	network, err := podnet.NewPod(string(w.uid), ip, w.n.cfg.NodeIP, w.n.cfg.PodCIDR)
	if err != nil {
		w.n.addresses.Release(ip)
		return err
	}
	w.network, w.ip = network, ip.String()
	return w.writeEtc()
}

// writeVolumes brings all volumes up to date. A volume that fails does not hold
// back the others.
func (w *worker) writeVolumes() error {
	builder := payloadBuilder{env: w.podEnv(), token: func(p *corev1.ServiceAccountTokenProjection) (string, error) {
		return w.tokens.get(w.ctx, p)
	}}
	var failed error
	for _, v := range w.pod.Spec.Volumes {
		content, made, err := builder.build(v)
		switch {
		case err != nil:
		case !made:
			err = os.MkdirAll(w.volumeDir(v.Name), 0o777)
		default:
			if old, ok := w.volumes[v.Name]; ok && maps.Equal(old, content) {
				continue
			}
			if err = writePayload(w.volumeDir(v.Name), content); err == nil {
				w.volumes[v.Name] = content
			}
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("MountVolume.SetUp failed for volume %q: %w", v.Name, err))
		}
	}
	return failed
}

func (w *worker) volumeDir(name string) string { return filepath.Join(w.dir, "volumes", name) }

func (w *worker) podEnv() podEnv {
	links := w.pod.Spec.EnableServiceLinks == nil || *w.pod.Spec.EnableServiceLinks
	return podEnv{
		pod: w.pod, podIP: w.ip, hostIP: w.n.cfg.NodeIP.String(), capacity: capacity(),
		services: serviceEnv(w.n.allServices(), w.pod.Namespace, links),
		sources:  w.n.sources,
	}
}

// stop begins to end all containers; calling it again can only shorten the grace
// period. finishStop does the rest as containers end.
func (w *worker) stop(grace time.Duration) {
	killAt := time.Now().Add(grace)
	if w.stopping {
		if killAt.Before(w.killAt) && w.killTimer != nil {
			w.killAt = killAt
			w.killTimer.Reset(grace)
		}
		return
	}
	w.stopping, w.killAt = true, killAt
	w.cancel()
	w.killTimer = time.AfterFunc(grace, sync.OnceFunc(func() { close(w.kill) }))
	w.terminateNext()
}

// terminateNext tells the next containers to end, and reports whether there are
// any. Sidecars end after all other containers, one at a time, the last one first.
func (w *worker) terminateNext() bool {
	var running, sidecars []*container
	for _, c := range w.containers() {
		switch {
		case c.proc == nil:
		case c.sidecar():
			sidecars = append(sidecars, c)
		default:
			running = append(running, c)
		}
	}
	if len(running) == 0 && len(sidecars) > 0 {
		running = sidecars[len(sidecars)-1:]
	}
	for _, c := range running {
		w.terminate(c, w.kill, "Stopping container "+c.spec.Name)
	}
	return len(running) > 0
}

// terminate asks a container to end, and kills it when kill is closed.
func (w *worker) terminate(c *container, kill <-chan struct{}, message string) {
	if c.killing {
		return
	}
	c.killing = true
	if !w.gone && !w.quit {
		w.event(c, corev1.EventTypeNormal, "Killing", message)
	}
	proc, target, hook := c.proc, w.target(c), (*corev1.LifecycleHandler)(nil)
	if c.spec.Lifecycle != nil {
		hook = c.spec.Lifecycle.PreStop
	}
	event := func(reason, text string) {
		w.mailbox.send(func() { w.event(c, corev1.EventTypeWarning, reason, text) })
	}
	go func() {
		if hook != nil {
			ctx, cancel := context.WithCancel(context.Background())
			over := make(chan error, 1)
			go func() { over <- target.runHook(ctx, hook) }()
			select {
			case err := <-over:
				if err != nil {
					event("FailedPreStopHook", "PreStopHook failed: "+err.Error())
				}
			case <-kill:
				proc.signal(syscall.SIGTERM)
				proc.wait(minimumGrace)
			case <-proc.done:
			}
			cancel()
		}
		proc.signal(syscall.SIGTERM)
		select {
		case <-proc.done:
		case <-kill:
			proc.signal(syscall.SIGKILL)
		}
	}()
}

// finishStop clears up once all containers of a stopping pod have ended.
func (w *worker) finishStop() {
	if w.stopped || w.terminateNext() {
		return
	}
	if w.network != nil {
		if err := killAll(w.network); err != nil {
			w.log.Error("processes left", "err", err)
			w.wake(time.Now().Add(time.Second))
			return
		}
		if w.closeHostPorts != nil {
			w.closeHostPorts()
		}
		if err := w.network.Close(); err != nil {
			w.log.Error("take down the network", "err", err)
		}
		w.n.addresses.Release(w.network.IP)
		w.network = nil
	}
	w.killTimer.Stop()
	for _, c := range w.containers() {
		if c.terminated == nil {
			c.waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating", Message: "the pod ended before the container started"}
		} else {
			c.waiting = nil
		}
	}
	w.stopped = true
}

// killTimeout bounds how long the kernel may take to end killed processes.
const killTimeout = 10 * time.Second

// killAll ends every process in a pod's network, also those that containers
// left behind.
func killAll(network *podnet.Pod) error {
	deadline := time.Now().Add(killTimeout)
	for {
		pids, err := network.Processes()
		if err != nil {
			return err
		}
		if len(pids) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v do not end after SIGKILL", pids)
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// removeFiles removes volumes and logs with the pod. When only the node stops,
// they stay: the pod may go on with them, as after a reboot.
func (w *worker) removeFiles() {
	if !w.gone {
		return
	}
	if err := errors.Join(os.RemoveAll(w.dir), os.RemoveAll(w.logs)); err != nil {
		w.log.Error("remove the pod's files", "err", err)
	}
}

// event reports on the pod, or on one of its containers.
func (w *worker) event(c *container, kind, reason, message string) {
	ref := &corev1.ObjectReference{
		Kind: "Pod", APIVersion: "v1", Namespace: w.key.Namespace, Name: w.key.Name, UID: w.uid, ResourceVersion: w.pod.ResourceVersion,
	}
	if c != nil {
		ref.FieldPath = "spec.containers{" + c.spec.Name + "}"
		if c.init {
			ref.FieldPath = "spec.initContainers{" + c.spec.Name + "}"
		}
	}
	w.n.events.Event(ref, kind, reason, message)
}
