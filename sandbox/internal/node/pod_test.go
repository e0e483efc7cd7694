package node

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func inPhase(phase corev1.PodPhase) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool { return pod.Status.Phase == phase }
}

func withCondition(kind corev1.PodConditionType, is corev1.ConditionStatus) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind && c.Status == is })
	}
}

func interfaces(t *testing.T) int {
	t.Helper()
	list, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestContainerSees checks a container from the inside.
func TestContainerSees(t *testing.T) {
	b := newBench(t)
	pod := testPod("look", corev1.RestartPolicyNever, "report", "write=/", "write=/made", "write=/scratch", "write=/config", "write=/tmp",
		"read=/config/key", "read=/one", "read=/etc/resolv.conf", "read=/info/labels")
	pod.Labels = map[string]string{"a": "b"}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "cm"}}}},
		{Name: "info", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}}}}}},
	}
	c := &pod.Spec.Containers[0]
	c.VolumeMounts = []corev1.VolumeMount{
		{Name: "scratch", MountPath: "/scratch/deep/er", SubPath: "x/y"}, {Name: "scratch", MountPath: "/scratch"},
		{Name: "config", MountPath: "/config"}, {Name: "config", MountPath: "/one", SubPath: "key"}, {Name: "info", MountPath: "/info"},
	}
	c.Env = []corev1.EnvVar{{Name: "IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}}}
	c.SecurityContext = &corev1.SecurityContext{
		ReadOnlyRootFilesystem: ptr.To(true), AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	w := b.start(pod)
	done := b.await("look", "done", inPhase(corev1.PodSucceeded))
	var got report
	if err := json.Unmarshal([]byte(b.log(w, 0)), &got); err != nil {
		t.Fatalf("log %q: %v", b.log(w, 0), err)
	}
	want := report{
		Hostname: "look", WorkDir: "/home/test",
		Env: []string{
			"COLOR=image", "HOME=/root", "HOSTNAME=look", "IP=" + done.Status.PodIP, asProgram + "=1", "PATH=" + defaultPath,
		},
		Root:            []string{"bin", "config", "dev", "etc", "home", "info", "made", "one", "proc", "root", "run", "scratch", "sys", "tmp", "var"},
		Unwritable:      []string{"/", "/made", "/config", "/tmp"},
		Files:           map[string]string{"/config/key": "value", "/one": "value", "/info/labels": `a="b"`, "/etc/resolv.conf": "search demo.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n"},
		Interfaces:      []string{"lo", "eth0"},
		Capabilities:    "0000000000000000",
		NoNewPrivileges: "1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the container sees (-want +got):\n%s", diff)
	}
	status := done.Status.ContainerStatuses[0]
	if status.State.Terminated == nil || status.State.Terminated.Reason != "Completed" || status.ImageID == "" || status.Ready {
		t.Errorf("container status %+v", status)
	}
}

func TestPodRunsAndStops(t *testing.T) {
	before := interfaces(t)
	b := newBench(t)
	pod := testPod("web", corev1.RestartPolicyAlways, "serve")
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}
	pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("http")}}}
	w := b.start(pod)
	started := time.Now()
	ready := b.await("web", "ready", isReady)
	if took := time.Since(started); took > 5*time.Second {
		t.Errorf("ready after %v, half a probe's period", took)
	}
	if ready.Status.Phase != corev1.PodRunning || ready.Status.HostIP != "10.244.0.1" || !strings.HasPrefix(ready.Status.PodIP, "10.244.1.") {
		t.Errorf("status %+v", ready.Status)
	}
	conn, err := net.DialTimeout("tcp", ready.Status.PodIP+":8080", 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()

	b.delete("web", 30)
	<-w.done
	ended := b.get("web").Status
	if got := ended.ContainerStatuses[0].State.Terminated; got == nil || got.ExitCode != 0 || ended.Phase != corev1.PodSucceeded {
		t.Errorf("after SIGTERM: %+v", ended)
	}
	events := b.seen()
	for _, reason := range []string{"Pulled", "Created", "Started", "Killing"} {
		if !hasEvent(events, "Normal "+reason) {
			t.Errorf("no event %s in %q", reason, events)
		}
	}
	for _, dir := range []string{w.dir, w.logs} {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", dir, err)
		}
	}
	if after := interfaces(t); after != before {
		t.Errorf("%d network interfaces, %d before", after, before)
	}
}

func TestStubbornContainerIsKilled(t *testing.T) {
	b := newBench(t)
	w := b.start(testPod("stubborn", corev1.RestartPolicyAlways, "stubborn"))
	b.awaitLog(w, "staying\n")
	start := time.Now()
	b.delete("stubborn", 1)
	<-w.done
	if took := time.Since(start); took < time.Second || took > 10*time.Second {
		t.Errorf("ended after %v, want after its grace period of 1s", took)
	}
	if got := b.get("stubborn").Status.ContainerStatuses[0].State.Terminated; got == nil || got.ExitCode != 137 {
		t.Errorf("terminated %+v, want exit code 137", got)
	}
}

func TestShorterGraceIsHeeded(t *testing.T) {
	b := newBench(t)
	w := b.start(testPod("stubborn", corev1.RestartPolicyAlways, "stubborn"))
	b.awaitLog(w, "staying\n")
	pod := b.get("stubborn")
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = ptr.To(metav1.Now()), ptr.To[int64](3600)
	b.node.podChanged(pod)
	b.node.podGone(pod)
	select {
	case <-w.done:
	case <-time.After(time.Minute):
		t.Fatal("a pod deleted with force is not ended")
	}
}

// A process that a container leaves behind stays as long as the pod does.
func TestOrphan(t *testing.T) {
	b := newBench(t)
	pod := testPod("orphan", corev1.RestartPolicyAlways, "orphan")
	w := b.start(pod)
	b.await("orphan", "restarted once and waiting", func(pod *corev1.Pod) bool {
		return len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].State.Waiting != nil &&
			pod.Status.ContainerStatuses[0].State.Waiting.Reason == "CrashLoopBackOff"
	})
	var pids []int
	w.ask(func() {
		list, err := w.network.Processes()
		if err != nil {
			t.Error(err)
		}
		pids = list
	})
	if len(pids) != 2 {
		t.Fatalf("processes %v in the pod, want the orphan of each of two runs", pids)
	}
	b.delete("orphan", 30)
	<-w.done
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); err == nil && !zombie(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
}

func zombie(pid int) bool {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(data), ") Z ")
}

// TestContainersEndWithTheNode kills a node; its containers, which ignore SIGTERM,
// must not outlive it.
func TestContainersEndWithTheNode(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), asNode+"="+t.TempDir())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pids []int
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "started"; {
		pid, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if len(pids) != 8 {
		t.Fatalf("started %v, want 8 containers", pids)
	}
	deadline := time.Now().Add(time.Minute)
	for _, pid := range pids {
		for syscall.Kill(pid, 0) == nil && !zombie(pid) {
			if time.Now().After(deadline) {
				t.Fatalf("container %d outlives its node", pid)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func TestRestartPolicies(t *testing.T) {
	b := newBench(t)
	tests := []struct {
		name   string
		policy corev1.RestartPolicy
		code   string
		phase  corev1.PodPhase
		// waits says that the container ends up in a backoff after one restart.
		waits bool
	}{
		{"never-0", corev1.RestartPolicyNever, "0", corev1.PodSucceeded, false},
		{"never-3", corev1.RestartPolicyNever, "3", corev1.PodFailed, false},
		{"failure-0", corev1.RestartPolicyOnFailure, "0", corev1.PodSucceeded, false},
		{"failure-3", corev1.RestartPolicyOnFailure, "3", corev1.PodRunning, true},
		{"always-0", corev1.RestartPolicyAlways, "0", corev1.PodRunning, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := b.start(testPod(tt.name, tt.policy, "exit", tt.code))
			pod := b.await(tt.name, string(tt.phase), func(pod *corev1.Pod) bool {
				return pod.Status.Phase == tt.phase && (pod.Status.ContainerStatuses[0].State.Waiting != nil) == tt.waits &&
					pod.Status.ContainerStatuses[0].State.Running == nil && (!tt.waits || pod.Status.ContainerStatuses[0].RestartCount == 1)
			})
			c := pod.Status.ContainerStatuses[0]
			ended := c.State.Terminated
			if tt.waits {
				ended = c.LastTerminationState.Terminated
				if !strings.Contains(c.State.Waiting.Message, "back-off 10s restarting failed container=c") {
					t.Errorf("waiting %+v", c.State.Waiting)
				}
				if got := b.log(w, 0); got != "leaving with "+tt.code+"\n" {
					t.Errorf("log of the first run %q", got)
				}
			}
			if ended == nil || strconv.Itoa(int(ended.ExitCode)) != tt.code {
				t.Errorf("ended %+v, want exit code %s", ended, tt.code)
			}
			if got := b.log(w, c.RestartCount); got != "leaving with "+tt.code+"\n" {
				t.Errorf("log %q", got)
			}
		})
	}
}

func TestUnknownImage(t *testing.T) {
	b := newBench(t)
	pod := testPod("unknown", corev1.RestartPolicyAlways)
	pod.Spec.Containers[0].Image = "nginx:1.29"
	b.start(pod)
	got := b.await("unknown", "waiting for its image", func(pod *corev1.Pod) bool {
		return len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].State.Waiting.Reason == "ErrImagePull"
	})
	if got.Status.Phase != corev1.PodPending {
		t.Errorf("phase %s", got.Status.Phase)
	}
	if events := b.seen(); !hasEvent(events, "Warning Failed", `"nginx:1.29"`, "test/program:v1") {
		t.Errorf("no event names the image and the known ones: %q", events)
	}
}

func TestMissingConfigMapThenCreated(t *testing.T) {
	b := newBench(t)
	configMaps := map[string]map[string]string{}
	b.node.sources = objects{configMaps: configMaps}
	pod := testPod("late", corev1.RestartPolicyAlways, "serve")
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "X", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}, Key: "x"}}}}
	w := b.start(pod)
	b.await("late", "waiting for its settings", func(pod *corev1.Pod) bool {
		return len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].State.Waiting.Reason == "CreateContainerConfigError"
	})
	if events := b.seen(); !hasEvent(events, "Warning Failed", `configmaps "settings" not found`) {
		t.Errorf("events %q", events)
	}
	start := time.Now()
	w.ask(func() { configMaps["settings"] = map[string]string{"x": "1"} })
	b.node.refresh(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "settings"}})
	b.await("late", "ready", isReady)
	if took := time.Since(start); took > configRetry/2 {
		t.Errorf("ready %v after the ConfigMap was made; want at once", took)
	}
}

// A pod waits for a Secret of its volumes, as Envoy's pod does for the Secret that
// Contour's Job makes.
func TestMissingSecretThenCreated(t *testing.T) {
	b := newBench(t)
	secrets := map[string]map[string]string{}
	b.node.sources = objects{secrets: secrets}
	pod := testPod("late", corev1.RestartPolicyNever, "report", "read=/certs/tls.crt")
	pod.Spec.Volumes = []corev1.Volume{{Name: "certs", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "envoycert"}}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "certs", MountPath: "/certs", ReadOnly: true}}
	w := b.start(pod)
	b.awaitEvents("Warning FailedMount", `volume "certs"`, `"envoycert" not found`)
	b.await("late", "pending", inPhase(corev1.PodPending))
	b.await("late", "not ready to start containers", withCondition(corev1.PodReadyToStartContainers, corev1.ConditionFalse))
	start := time.Now()
	w.ask(func() { secrets["envoycert"] = map[string]string{"tls.crt": "certificate"} })
	b.node.refresh(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "envoycert"}})
	b.await("late", "done", inPhase(corev1.PodSucceeded))
	if took := time.Since(start); took > setUpRetry {
		t.Errorf("done %v after the Secret was made; want at once", took)
	}
	if log := b.log(w, 0); !strings.Contains(log, "certificate") {
		t.Errorf("the container saw %q", log)
	}
}

func TestUnsupportedPodSaysSo(t *testing.T) {
	b := newBench(t)
	pod := testPod("host", corev1.RestartPolicyAlways, "serve")
	pod.Spec.HostNetwork = true
	b.start(pod)
	b.await("host", "pending", inPhase(corev1.PodPending))
	b.awaitEvents("Warning UnsupportedPod", "hostNetwork")
}

func TestProgramThatCannotStart(t *testing.T) {
	b := newBench(t)
	pod := testPod("shell", corev1.RestartPolicyNever)
	pod.Spec.Containers[0].Command = []string{"sh", "-c", "true"}
	b.start(pod)
	got := b.await("shell", "failed", inPhase(corev1.PodFailed)).Status.ContainerStatuses[0].State.Terminated
	if got.ExitCode != startErrorCode || got.Reason != "StartError" || !strings.Contains(got.Message, `"sh": executable file not found`) {
		t.Errorf("terminated %+v", got)
	}
}

func TestInitContainersInOrder(t *testing.T) {
	b := newBench(t)
	pod := testPod("ordered", corev1.RestartPolicyAlways, "serve")
	always := corev1.ContainerRestartPolicyAlways
	pod.Spec.InitContainers = []corev1.Container{
		{Name: "one", Image: "test/program:v1", Args: []string{"exit", "0"}},
		{Name: "side", Image: "test/program:v1", Args: []string{"stubborn"}, RestartPolicy: &always},
		{Name: "two", Image: "test/program:v1", Args: []string{"exit", "0"}},
	}
	w := b.start(pod)
	got := b.await("ordered", "ready", isReady).Status
	for i, s := range got.InitContainerStatuses {
		runs, done := s.State.Running != nil, s.State.Terminated != nil && s.State.Terminated.ExitCode == 0 && s.Ready
		if i == 1 && !runs || i != 1 && !done {
			t.Errorf("init container %+v", s)
		}
	}
	var created []string
	for _, e := range b.seen() {
		if name, ok := strings.CutPrefix(e, "Normal Created Created container: "); ok {
			created = append(created, name)
		}
	}
	if diff := cmp.Diff([]string{"one", "side", "two", "c"}, created); diff != "" {
		t.Errorf("containers were created in the order (-want +got):\n%s", diff)
	}
	b.delete("ordered", 1)
	<-w.done
}

func TestLivenessRestarts(t *testing.T) {
	b := newBench(t)
	pod := testPod("ill", corev1.RestartPolicyAlways, "serve")
	pod.Spec.Containers[0].LivenessProbe = &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(8080)}}, PeriodSeconds: 1, FailureThreshold: 2,
	}
	b.start(pod)
	b.await("ill", "restarted", func(pod *corev1.Pod) bool {
		return len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].RestartCount == 1
	})
	events := b.seen()
	for _, want := range [][]string{{"Warning Unhealthy", "Liveness probe failed: HTTP probe failed with statuscode: 404"}, {"Normal Killing", "Container c failed liveness probe, will be restarted"}} {
		if !hasEvent(events, want...) {
			t.Errorf("no event %q in %q", want, events)
		}
	}
}

func TestExecProbe(t *testing.T) {
	b := newBench(t)
	pod := testPod("exec", corev1.RestartPolicyAlways, "serve")
	pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
		Exec: &corev1.ExecAction{Command: []string{"/bin/program", "report", "read=/etc/hosts"}}}}
	w := b.start(pod)
	got := b.await("exec", "ready", isReady)
	var place execPlace
	w.ask(func() { place = w.place(w.main[0]) })
	ok, output := place.probe(t.Context(), []string{"program", "report", "read=/etc/hosts"})
	var seen report
	if err := json.Unmarshal([]byte(output), &seen); err != nil || !ok {
		t.Fatalf("exec: %v %q: %v", ok, output, err)
	}
	if !strings.Contains(seen.Files["/etc/hosts"], got.Status.PodIP) || seen.Hostname != "exec" || seen.WorkDir != "/home/test" || len(seen.Interfaces) != 2 {
		t.Errorf("a further process sees %+v", seen)
	}
	if ok, output := place.probe(t.Context(), []string{"/bin/program", "exit", "4"}); ok || output != "leaving with 4\n" {
		t.Errorf("a command that fails: %v %q", ok, output)
	}
	if ok, output := place.probe(t.Context(), []string{"/bin/sh"}); ok || !strings.Contains(output, "no such file") {
		t.Errorf("no such command: %v %q", ok, output)
	}
}

// TestNodeRestart hands a pod to a second node, as when the node's process is
// stopped and started.
func TestNodeRestart(t *testing.T) {
	b := newBench(t)
	pod := testPod("web", corev1.RestartPolicyAlways, "serve")
	b.start(pod)
	running := b.await("web", "ready", isReady)
	b.node.stopPods()
	if got := b.get("web"); !isReady(got) {
		t.Fatalf("the node wrote a status while it stopped: %+v", got.Status)
	}

	second := newBench(t)
	second.node.cfg.StateDir = b.node.cfg.StateDir
	second.start(running)
	got := second.await("web", "restarted", func(pod *corev1.Pod) bool {
		return isReady(pod) && pod.Status.ContainerStatuses[0].RestartCount == 1
	}).Status.ContainerStatuses[0]
	if last := got.LastTerminationState.Terminated; last == nil || last.Reason != "ContainerStatusUnknown" {
		t.Errorf("last state %+v", last)
	}
	over := testPod("job", corev1.RestartPolicyNever, "exit", "0")
	over.Status = corev1.PodStatus{StartTime: ptr.To(metav1.Now()), Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
		{Name: "c", ContainerID: "sandbox://x", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}
	second.start(over)
	second.await("job", "failed", inPhase(corev1.PodFailed))
}
