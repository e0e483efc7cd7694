package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// ready is the readiness probe of pods that specify none: without a probe, a pod is
// ready before its program listens. The probe leaves no line in the program's log.
const ready = `
      readinessProbe:
        tcpSocket:
          port: 8080
        periodSeconds: 1`

// pod is the manifest of a pod with one container, whose fields are indented as below
// "- ". Without a readinessProbe of its own, the pod listens once it is ready.
func pod(name, container string) string {
	if !strings.Contains(container, "readinessProbe:") {
		container = ready + "\n" + strings.Trim(container, "\n")
	}
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata:
  name: %s
  labels:
    app: %[1]s
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: main
      image: argoproj/rollouts-demo:blue
%s
`, name, strings.Trim(container, "\n"))
}

// awaitPod waits until check returns nil for a pod.
func awaitPod(t *testing.T, n *e2etest.Namespace, name, what string, check func(*corev1.Pod) error) *corev1.Pod {
	t.Helper()
	var last *corev1.Pod
	e2etest.Eventually(t, e2etest.Patience, fmt.Sprintf("pod %s: %s", name, what), func(ctx context.Context) error {
		pod, err := n.Kube.CoreV1().Pods(n.Name).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		last = pod
		if err := check(pod); err != nil {
			return fmt.Errorf("%w; its status: %+v", err, pod.Status)
		}
		return nil
	})
	return last
}

func isReady(pod *corev1.Pod) error {
	if !cluster.PodReady(pod) {
		return errors.New("not ready")
	}
	return nil
}

// mainStatus returns the status of a pod's one container.
func mainStatus(pod *corev1.Pod) corev1.ContainerStatus {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == "main" {
			return status
		}
	}
	return corev1.ContainerStatus{}
}

// A pod waits if the sandbox has no program for its image, and an Event names the
// images that the sandbox has.
func TestSandboxUnknownImage(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	n.Apply(strings.ReplaceAll(pod("unknown", "      # see image above"), "argoproj/rollouts-demo:blue", "nginx:1.29"))
	awaitPod(t, n, "unknown", "waiting for its image", func(pod *corev1.Pod) error {
		waiting := mainStatus(pod).State.Waiting
		if pod.Status.Phase != corev1.PodPending || waiting == nil {
			return errors.New("it does not wait")
		}
		if waiting.Reason != "ErrImagePull" && waiting.Reason != "ImagePullBackOff" {
			return fmt.Errorf("it waits for %s", waiting.Reason)
		}
		return nil
	})
	event := n.AwaitEvent("Pod", "unknown", "Failed", "nginx:1.29", "argoproj/rollouts-demo")
	if event.Type != corev1.EventTypeWarning {
		t.Errorf("the Event is of type %s, want Warning", event.Type)
	}
}

// Probes decide on readiness and on restarts.
func TestSandboxProbes(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	n.Apply(pod("slow-start", `
      env:
        - name: STARTUP_DELAY
          value: "3"
      startupProbe:
        tcpSocket:
          port: 8080
        periodSeconds: 1
        failureThreshold: 60
      livenessProbe:
        tcpSocket:
          port: 8080
        periodSeconds: 1
        failureThreshold: 1
      readinessProbe:
        httpGet:
          path: /healthz
          port: 8080
        periodSeconds: 1
`))
	n.Apply(pod("never-ready", `
      readinessProbe:
        httpGet:
          path: /nothing
          port: 8080
        periodSeconds: 1
`))
	n.Apply(pod("not-alive", `
      livenessProbe:
        httpGet:
          path: /nothing
          port: 8080
        periodSeconds: 1
        failureThreshold: 2
`))
	slow := awaitPod(t, n, "slow-start", "ready", isReady)
	if mainStatus(slow).RestartCount != 0 {
		t.Errorf("the startup probe did not hold back the liveness probe: %d restarts", mainStatus(slow).RestartCount)
	}
	if started := mainStatus(slow).State.Running.StartedAt; time.Since(started.Time) < 3*time.Second {
		t.Error("ready before it listened")
	}
	awaitPod(t, n, "not-alive", "restarted", func(pod *corev1.Pod) error {
		if mainStatus(pod).RestartCount < 1 {
			return errors.New("not restarted")
		}
		return nil
	})
	n.AwaitEvent("Pod", "not-alive", "Unhealthy", "Liveness", "404")
	n.AwaitEvent("Pod", "never-ready", "Unhealthy", "Readiness", "404")
	never := awaitPod(t, n, "never-ready", "running", func(pod *corev1.Pod) error {
		if pod.Status.Phase != corev1.PodRunning {
			return errors.New("not running")
		}
		return nil
	})
	if isReady(never) == nil || mainStatus(never).RestartCount != 0 {
		t.Errorf("a failing readiness probe made it %+v", never.Status)
	}
}

// A container that exits is restarted, with a backoff that grows; its previous log
// stays readable.
func TestSandboxRestart(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	n.Apply(pod("crashing", `      args: ["--no-such-flag"]`))
	n.Apply(strings.Replace(pod("once", `      args: ["--no-such-flag"]`), "  containers:", "  restartPolicy: Never\n  containers:", 1))
	crashing := awaitPod(t, n, "crashing", "waiting before its third start", func(pod *corev1.Pod) error {
		status := mainStatus(pod)
		if status.RestartCount < 1 || status.State.Waiting == nil || status.State.Waiting.Reason != "CrashLoopBackOff" {
			return errors.New("it does not wait")
		}
		return nil
	})
	last := mainStatus(crashing).LastTerminationState.Terminated
	if last == nil || last.ExitCode != 2 || last.Reason != "Error" {
		t.Errorf("its last end was %+v, want exit code 2", last)
	}
	n.AwaitEvent("Pod", "crashing", "BackOff", "Back-off restarting failed container")
	for _, args := range [][]string{{"logs", "crashing"}, {"logs", "crashing", "--previous"}} {
		if log := n.Kubectl(args...); !strings.Contains(log, "no-such-flag") {
			t.Errorf("kubectl %s: %q", strings.Join(args, " "), log)
		}
	}
	once := awaitPod(t, n, "once", "failed", func(pod *corev1.Pod) error {
		if pod.Status.Phase != corev1.PodFailed {
			return errors.New("not failed")
		}
		return nil
	})
	if mainStatus(once).RestartCount != 0 || mainStatus(once).State.Terminated == nil {
		t.Errorf("restartPolicy Never: %+v", mainStatus(once))
	}
}

// Volumes and variables from ConfigMaps and Secrets, and the ServiceAccount's
// token, as the container sees them; a changed ConfigMap arrives in its volume.
func TestSandboxVolumes(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	n.Apply(`
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
data:
  colour: purple
  greeting: good morning
---
apiVersion: v1
kind: Secret
metadata:
  name: keys
stringData:
  key: hush
`)
	n.Apply(pod("reader", `
      env:
        - name: COLOR
          valueFrom:
            configMapKeyRef:
              name: settings
              key: colour
        - name: KEY
          valueFrom:
            secretKeyRef:
              name: keys
              key: key
        - name: WHERE
          valueFrom:
            fieldRef:
              fieldPath: metadata.namespace
      volumeMounts:
        - name: settings
          mountPath: /etc/settings
        - name: keys
          mountPath: /etc/keys
          readOnly: true
        - name: scratch
          mountPath: /scratch
  volumes:
    - name: settings
      configMap:
        name: settings
    - name: keys
      secret:
        secretName: keys
        items:
          - key: key
            path: deep/down
    - name: scratch
      emptyDir: {}
`))
	reader := awaitPod(t, n, "reader", "ready", isReady)
	root, environment := insideContainer(t, "rollouts-demo", "reader")
	for _, want := range []string{"COLOR=purple", "KEY=hush", "WHERE=" + n.Name, "KUBERNETES_SERVICE_HOST=10.96.0.1"} {
		if !strings.Contains(environment, want+"\n") {
			t.Errorf("no %s in its environment:\n%s", want, environment)
		}
	}
	read := func(path string) string {
		content, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Error(err)
		}
		return string(content)
	}
	for path, want := range map[string]string{
		"/etc/settings/greeting": "good morning",
		"/etc/settings/colour":   "purple",
		"/etc/keys/deep/down":    "hush",
		"/var/run/secrets/kubernetes.io/serviceaccount/namespace": n.Name,
	} {
		if got := read(path); got != want {
			t.Errorf("%s holds %q, want %q", path, got, want)
		}
	}
	if token := read("/var/run/secrets/kubernetes.io/serviceaccount/token"); strings.Count(token, ".") != 2 {
		t.Errorf("the token is none: %q", token)
	}
	if info, err := os.Stat(filepath.Join(root, "scratch")); err != nil || !info.IsDir() {
		t.Errorf("emptyDir: %v", err)
	}
	// The container's root directory is its own, not this machine's.
	if _, err := os.Stat(filepath.Join(root, "home")); !os.IsNotExist(err) {
		t.Errorf("the container sees /home (%v)", err)
	}
	if body := get(t, "http://"+reader.Status.PodIP+":8080/color"); body != `"purple"` {
		t.Errorf("it answers %s", body)
	}

	n.Kubectl("patch", "configmap", "settings", "--type=merge", `-p={"data":{"greeting":"good evening"}}`)
	e2etest.Eventually(t, e2etest.Patience, "the changed ConfigMap in the volume", func(context.Context) error {
		if got := read("/etc/settings/greeting"); got != "good evening" {
			return fmt.Errorf("it holds %q", got)
		}
		return nil
	})
}

// insideContainer returns the root directory, as seen from the test, and the
// environment of the process of a program that runs in a pod.
func insideContainer(t *testing.T, program, pod string) (root, environment string) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || !strings.Contains(string(line), program) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err != nil {
			continue
		}
		if environment := strings.ReplaceAll(string(content), "\x00", "\n"); strings.Contains("\n"+environment, "\nHOSTNAME="+pod+"\n") {
			return filepath.Join(dir, "root"), environment
		}
	}
	t.Fatalf("no process %s of pod %s in /proc", program, pod)
	return "", ""
}

// A container is asked to stop, and killed if it has not stopped within its grace
// period. Its log tells which of the two happened: the program stops after
// TERMINATION_DELAY, and then logs that it has stopped.
func TestSandboxTermination(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	for name, tc := range map[string]struct {
		// delay and grace are in seconds. The test fails if the pod takes the longer of
		// the two: the log shows it, or the pod is not gone within e2etest.Patience.
		delay, grace string
		// least is the shortest time that the pod may take to be gone, and stops says
		// whether the container stops by itself.
		least time.Duration
		stops bool
	}{
		"in its own time": {delay: "2", grace: "600", least: 2 * time.Second, stops: true},
		"out of time":     {delay: "15", grace: "2", least: 2 * time.Second, stops: false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := n.With(t)
			podName := strings.ReplaceAll(name, " ", "-")
			n.Apply(strings.Replace(pod(podName, `
      env:
        - name: TERMINATION_DELAY
          value: "`+tc.delay+`"
`), "terminationGracePeriodSeconds: 1", "terminationGracePeriodSeconds: "+tc.grace, 1))
			awaitPod(t, n, podName, "ready", isReady)
			log := followLog(t, n, podName, "serving")

			begun := time.Now()
			if err := n.Kube.CoreV1().Pods(n.Name).Delete(t.Context(), podName, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			e2etest.Eventually(t, e2etest.Patience, "the end of pod "+podName, func(ctx context.Context) error {
				_, err := n.Kube.CoreV1().Pods(n.Name).Get(ctx, podName, metav1.GetOptions{})
				if apierrors.IsNotFound(err) {
					return nil
				}
				return errors.Join(err, errors.New("it is still there"))
			})
			if took := time.Since(begun); took < tc.least {
				t.Errorf("its end took %s, want %s at least", took, tc.least)
			}
			text := log()
			if !strings.Contains(text, " asked to stop; ") {
				t.Errorf("it was not asked to stop; its log:\n%s", text)
			}
			if stopped := strings.Contains(text, " stopped\n"); stopped != tc.stops {
				t.Errorf("it got to its end by itself: %t, want %t; its log:\n%s", stopped, tc.stops, text)
			}
		})
	}
}

// followLog follows the log of a pod, and returns once the log contains a text. The
// returned function waits for the end of the log and returns all of it.
func followLog(t *testing.T, n *e2etest.Namespace, pod, until string) func() string {
	t.Helper()
	stream, err := n.Kube.CoreV1().Pods(n.Name).GetLogs(pod, &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stream.Close() })
	var text bytes.Buffer
	chunk := make([]byte, 4096)
	read := func() error {
		count, err := stream.Read(chunk)
		text.Write(chunk[:count])
		return err
	}
	for !strings.Contains(text.String(), until) {
		if err := read(); err != nil {
			t.Fatalf("log of pod %s: %v; it holds %q", pod, err, text.String())
		}
	}
	return func() string {
		for read() == nil {
		}
		return text.String()
	}
}

// kubectl logs works, also with the usual flags.
func TestSandboxLogs(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	n.Apply(pod("talker", "      # nothing more"))
	talker := awaitPod(t, n, "talker", "ready", isReady)
	for range 3 {
		get(t, "http://"+talker.Status.PodIP+":8080/color")
	}
	line := regexp.MustCompile(`(?m)^\d{4}/\d\d/\d\d .* 200 blue$`)
	e2etest.Eventually(t, e2etest.Patience, "three lines in the log", func(context.Context) error {
		if got := line.FindAllString(n.Kubectl("logs", "talker"), -1); len(got) != 3 {
			return fmt.Errorf("%d lines: %q", len(got), got)
		}
		return nil
	})
	if got := n.Kubectl("logs", "pod/talker", "--tail=1"); len(line.FindAllString(got, -1)) != 1 || strings.Count(got, "\n") != 1 {
		t.Errorf("--tail=1: %q", got)
	}
	if got := n.Kubectl("logs", "-l", "app=talker", "--timestamps", "--tail=1"); !regexp.MustCompile(`^\d{4}-\d\d-\d\dT.*Z `).MatchString(got) {
		t.Errorf("--timestamps: %q", got)
	}
	if got := n.Kubectl("logs", "talker", "--since=1h"); !strings.Contains(got, "serving blue") {
		t.Errorf("--since=1h: %q", got)
	}
}
