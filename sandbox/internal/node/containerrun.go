package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/image"
)

const (
	// configRetry is how long a container waits for its next start if its variables
	// or mounts cannot be made. A change of an object that they refer to ends the
	// wait.
	configRetry = 10 * time.Second
	// drainTime is how long the node waits for the last output of a container that
	// has ended.
	drainTime = 100 * time.Millisecond
	// maxTerminationMessage is in bytes.
	maxTerminationMessage = 4096
	// startErrorCode is the exit code of a container whose program cannot be
	// started.
	startErrorCode = 128
)

// ensure starts a container that should run and does not, unless it has to wait.
func (w *worker) ensure(c *container) {
	if c.proc != nil {
		return
	}
	if now := time.Now(); now.Before(c.retryAt) {
		w.wake(c.retryAt)
		return
	}
	img, err := w.n.cfg.Images.Resolve(c.spec.Image)
	if err != nil {
		w.pullFailed(c, err)
		return
	}
	c.image = img
	l, err := w.launch(c)
	if err != nil {
		w.configFailed(c, err)
		return
	}
	c.configErr = ""
	w.start(c, l)
}

// pullFailed reports that there is no such image, and schedules the next attempt
// with a growing backoff.
func (w *worker) pullFailed(c *container, err error) {
	first := c.pulls.delay == 0
	_ = c.pulls.next(0) // Skips the first delay of zero: an immediate retry would fail, too.
	c.retryAt = time.Now().Add(c.pulls.delay)
	w.wake(c.retryAt)
	reason := "ErrImagePull"
	if !first {
		reason = "ImagePullBackOff"
	}
	if !image.IsUnknown(err) {
		reason = "InvalidImageName"
	}
	if first {
		w.event(c, corev1.EventTypeWarning, "Failed", "Failed to pull image: "+err.Error())
	} else {
		w.event(c, corev1.EventTypeNormal, "BackOff", fmt.Sprintf("Back-off pulling image %q", c.spec.Image))
	}
	w.event(c, corev1.EventTypeWarning, "Failed", "Error: "+reason)
	c.wait(reason, err.Error())
}

func (w *worker) configFailed(c *container, err error) {
	c.retryAt = time.Now().Add(configRetry)
	w.wake(c.retryAt)
	c.wait("CreateContainerConfigError", err.Error())
	if c.configErr != err.Error() {
		c.configErr = err.Error()
		w.event(c, corev1.EventTypeWarning, "Failed", "Error: "+err.Error())
	}
}

// launch says what the container's process is to become.
func (w *worker) launch(c *container) (launch, error) {
	env, err := w.podEnv().environment(&c.spec, c.image.Env)
	if err != nil {
		return launch{}, err
	}
	for name, value := range map[string]string{"PATH": defaultPath, "HOSTNAME": hostname(w.pod), "HOME": "/root"} {
		if _, ok := env[name]; !ok {
			env[name] = value
		}
	}
	l := launch{
		Root:     filepath.Join(w.dir, "root"),
		Hostname: hostname(w.pod),
		Dirs:     append(slices.Clone(c.image.Dirs), "/root", "/run", "/var"),
		WorkDir:  workDir(&c.spec, c.image),
		Argv:     commandLine(&c.spec, c.image.Entrypoint, c.image.Args, env),
		Env:      envList(env),

		Capabilities: capabilities(&c.spec),
	}
	if s := c.spec.SecurityContext; s != nil {
		l.ReadOnlyRoot = s.ReadOnlyRootFilesystem != nil && *s.ReadOnlyRootFilesystem
		l.NoNewPrivileges = s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation
	}
	for _, target := range slices.Sorted(maps.Keys(c.image.Files)) {
		l.Mounts = append(l.Mounts, bindMount{Source: c.image.Files[target], Target: target, ReadOnly: true})
	}
	l.Mounts = append(l.Mounts, w.etcMounts()...)
	volumes, err := w.volumeMounts(c, env)
	if err != nil {
		return launch{}, err
	}
	l.Mounts = append(l.Mounts, volumes...)
	message, err := w.terminationMessage(c)
	if err != nil {
		return launch{}, err
	}
	l.Mounts = append(l.Mounts, message)
	if err := os.MkdirAll(l.Root, 0o755); err != nil {
		return launch{}, fmt.Errorf("root directory: %w", err)
	}
	return l, nil
}

// volumeMounts are the container's mounts, outer ones before those within them.
func (w *worker) volumeMounts(c *container, env map[string]string) ([]bindMount, error) {
	var mounts []bindMount
	for _, m := range c.spec.VolumeMounts {
		source := w.volumeDir(m.Name)
		sub := m.SubPath
		if m.SubPathExpr != "" {
			sub = expand(m.SubPathExpr, env)
		}
		if sub != "" {
			resolved, err := w.subPath(m, source, sub)
			if err != nil {
				return nil, fmt.Errorf("volumeMount %s: subPath: %w", m.Name, err)
			}
			source = resolved
		}
		readOnly := m.ReadOnly || slices.ContainsFunc(w.pod.Spec.Volumes, func(v corev1.Volume) bool {
			// A container cannot change a volume that is made from API objects.
			return v.Name == m.Name && v.EmptyDir == nil
		})
		mounts = append(mounts, bindMount{Source: source, Target: m.MountPath, ReadOnly: readOnly})
	}
	slices.SortStableFunc(mounts, func(a, b bindMount) int {
		return strings.Count(path.Clean(a.Target), "/") - strings.Count(path.Clean(b.Target), "/")
	})
	return mounts, nil
}

// subPath finds a file or directory in a volume. In an emptyDir, a missing one
// becomes a directory.
func (w *worker) subPath(m corev1.VolumeMount, dir, sub string) (string, error) {
	resolved, err := inside(dir, sub)
	if !errors.Is(err, os.ErrNotExist) {
		return resolved, err
	}
	if _, made := w.volumes[m.Name]; made || slices.Contains(strings.Split(sub, "/"), "..") {
		return "", err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }()
	if err := root.MkdirAll(sub, 0o755); err != nil {
		return "", err
	}
	return inside(dir, sub)
}

// terminationMessage makes the file for a container's termination message.
func (w *worker) terminationMessage(c *container) (bindMount, error) {
	file := w.messageFile(c)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return bindMount{}, fmt.Errorf("termination message: %w", err)
	}
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		return bindMount{}, fmt.Errorf("termination message: %w", err)
	}
	target := c.spec.TerminationMessagePath
	if target == "" {
		target = corev1.TerminationMessagePathDefault
	}
	return bindMount{Source: file, Target: target}, nil
}

func (w *worker) messageFile(c *container) string {
	return filepath.Join(w.dir, "messages", c.spec.Name)
}

// start runs the container's program.
func (w *worker) start(c *container, l launch) {
	if c.terminated != nil {
		c.restarts++
		c.last = c.terminated
	}
	c.terminated, c.waiting, c.killing = nil, nil, false
	c.id = newContainerID()
	w.event(c, corev1.EventTypeNormal, "Pulled", fmt.Sprintf("Container image %q already present on machine", c.spec.Image))
	started := time.Now()
	proc, err := w.spawn(c, l)
	if err != nil {
		w.log.Warn("container does not start", "container", c.spec.Name, "err", err)
		w.event(c, corev1.EventTypeWarning, "Failed", "Error: failed to start container: "+err.Error())
		w.ended(c, &corev1.ContainerStateTerminated{
			ExitCode: startErrorCode, Reason: "StartError", Message: err.Error(),
			StartedAt: metav1.NewTime(started), FinishedAt: metav1.Now(), ContainerID: c.id,
		}, 0)
		return
	}
	c.proc = proc
	w.event(c, corev1.EventTypeNormal, "Created", "Created container: "+c.spec.Name)
	w.event(c, corev1.EventTypeNormal, "Started", "Started container "+c.spec.Name)
	w.log.Debug("container started", "container", c.spec.Name, "process", proc.cmd.Process.Pid, "took", time.Since(started))
	w.startProbes(c)
	go func() {
		<-proc.done
		w.mailbox.send(func() { w.exited(c, proc) })
	}()
}

func (w *worker) spawn(c *container, l launch) (*process, error) {
	log, err := createLogFile(logPath(w.logs, c.spec.Name, c.restarts), w.log)
	if err != nil {
		return nil, err
	}
	if c.restarts > 1 {
		// Only the present and the previous log can be requested.
		old := logPath(w.logs, c.spec.Name, c.restarts-2)
		_ = os.Remove(old)
		_ = os.Remove(old + ".1")
	}
	c.log = log
	stdout, err := log.pipe("stdout")
	if err != nil {
		log.end()
		return nil, err
	}
	defer func() { _ = stdout.Close() }()
	stderr, err := log.pipe("stderr")
	if err != nil {
		log.end()
		return nil, err
	}
	defer func() { _ = stderr.Close() }()
	return w.n.spawner.launchProcess(l, w.network.Namespace(), outputs{stdout: stdout, stderr: stderr}, func() {
		log.drain(drainTime)
		log.end()
	})
}

// exited takes note that a container's process ended by itself or was ended.
func (w *worker) exited(c *container, proc *process) {
	if c.proc != proc {
		return
	}
	c.proc = nil
	if c.stop != nil {
		c.stop()
	}
	c.ready, c.started = false, false
	t := &corev1.ContainerStateTerminated{
		ExitCode: int32(proc.exitCode), Reason: "Completed",
		StartedAt: metav1.NewTime(proc.started), FinishedAt: metav1.NewTime(proc.ended), ContainerID: c.id,
	}
	if proc.exitCode != 0 {
		t.Reason = "Error"
	}
	t.Message = w.lastWords(c, proc.exitCode != 0)
	w.log.Debug("container ended", "container", c.spec.Name, "exitCode", proc.exitCode)
	w.ended(c, t, proc.ended.Sub(proc.started))
}

// ended decides whether and when a container that ran for ran is started again.
func (w *worker) ended(c *container, t *corev1.ContainerStateTerminated, ran time.Duration) {
	c.terminated, c.waiting = t, nil
	if w.stopping || !restarts(c.policy(w.pod.Spec.RestartPolicy), t.ExitCode) {
		return
	}
	delay := c.crashes.next(ran)
	c.retryAt = t.FinishedAt.Add(delay)
	if delay > 0 {
		text := fmt.Sprintf("back-off %v restarting failed container=%s pod=%s_%s(%s)", delay, c.spec.Name, w.key.Name, w.key.Namespace, w.uid)
		c.wait("CrashLoopBackOff", text)
		w.event(c, corev1.EventTypeWarning, "BackOff", fmt.Sprintf("Back-off restarting failed container %s in pod %s_%s(%s)", c.spec.Name, w.key.Name, w.key.Namespace, w.uid))
	}
}

// lastWords is the container's termination message. If it left none, it is the end
// of a failed container's log, provided that the container asks for that.
func (w *worker) lastWords(c *container, failed bool) string {
	data, err := os.ReadFile(w.messageFile(c))
	if err == nil && len(data) > 0 {
		return string(data[:min(len(data), maxTerminationMessage)])
	}
	if !failed || c.spec.TerminationMessagePolicy != corev1.TerminationMessageFallbackToLogsOnError {
		return ""
	}
	var b bytes.Buffer
	err = copyLog(context.Background(), &b, func() {}, logPath(w.logs, c.spec.Name, c.restarts), nil,
		logOptions{tailLines: 80, limitBytes: -1})
	if err != nil {
		w.log.Debug("termination message", "err", err)
	}
	text := b.String()
	return text[max(0, len(text)-2048):]
}

// startProbes starts the probes that decide whether the present run is started,
// alive and ready.
func (w *worker) startProbes(c *container) {
	ctx, cancel := context.WithCancel(context.Background())
	c.stop = cancel
	c.started, c.ready = false, false
	if c.spec.StartupProbe == nil {
		w.hasStarted(ctx, c)
		return
	}
	counting, done := context.WithCancel(ctx)
	w.probe(counting, c, startupProbe, c.spec.StartupProbe, func(ok bool, output string) {
		done()
		if ok {
			w.hasStarted(ctx, c)
			return
		}
		w.unhealthy(c, startupProbe, c.spec.StartupProbe)
	})
}

// hasStarted begins the other two probes.
func (w *worker) hasStarted(ctx context.Context, c *container) {
	c.started = true
	if c.spec.ReadinessProbe == nil {
		c.ready = true
	} else {
		w.probe(ctx, c, readinessProbe, c.spec.ReadinessProbe, func(ok bool, _ string) { c.ready = ok })
	}
	if c.spec.LivenessProbe != nil {
		w.probe(ctx, c, livenessProbe, c.spec.LivenessProbe, func(ok bool, _ string) {
			if !ok {
				w.unhealthy(c, livenessProbe, c.spec.LivenessProbe)
			}
		})
	}
}

// probe runs a probe of the container's present run until ctx ends, and calls
// decided in the worker whenever enough equal results have come in a row.
func (w *worker) probe(ctx context.Context, c *container, kind probeKind, p *corev1.Probe, decided func(ok bool, output string)) {
	proc, target, count := c.proc, w.target(c), countOf(p)
	report := func(r probeResult) {
		w.mailbox.send(func() {
			if c.proc != proc || ctx.Err() != nil {
				return
			}
			if !r.ok {
				w.event(c, corev1.EventTypeWarning, "Unhealthy", fmt.Sprintf("%s probe failed: %s", kind, r.output))
			}
			if count.observe(r.ok) {
				decided(r.ok, r.output)
			}
		})
	}
	check := func(ctx context.Context) (bool, string) { return target.check(ctx, p.ProbeHandler) }
	go runProbe(ctx, kind, timingOf(p), check, report)
}

// unhealthy ends a container so that it is started again.
func (w *worker) unhealthy(c *container, kind probeKind, p *corev1.Probe) {
	if c.killing || w.stopping {
		return
	}
	grace := podGrace(w.pod)
	if p.TerminationGracePeriodSeconds != nil {
		grace = time.Duration(*p.TerminationGracePeriodSeconds) * time.Second
	}
	text := fmt.Sprintf("Container %s failed %s probe, will be restarted", c.spec.Name, strings.ToLower(string(kind)))
	kill := make(chan struct{})
	podKill := w.kill
	timer := time.NewTimer(grace)
	go func() {
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-podKill: // The pod's own grace period is over first.
		}
		close(kill)
	}()
	w.terminate(c, kill, text)
}

// target is where the container's probes and hooks go.
func (w *worker) target(c *container) probeTarget {
	here := w.place(c)
	return probeTarget{podIP: w.ip, ports: c.spec.Ports, exec: here.probe}
}
