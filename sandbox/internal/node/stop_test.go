package node

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Sidecars end after the containers that may need them, the last one first.
func TestSidecarsEndLast(t *testing.T) {
	b := newBench(t)
	pod := testPod("ordered", corev1.RestartPolicyAlways, "serve")
	always := corev1.ContainerRestartPolicyAlways
	serve := func(name string) corev1.Container {
		return corev1.Container{Name: name, Image: "test/program:v1", Args: []string{"stop-slowly"}}
	}
	first, second := serve("first"), serve("second")
	first.RestartPolicy, second.RestartPolicy = &always, &always
	pod.Spec.InitContainers = []corev1.Container{first, second}
	pod.Spec.Containers = []corev1.Container{serve("c"), serve("d")}
	w := b.start(pod)
	for _, name := range []string{"first", "second", "c", "d"} {
		awaitRunning(t, logPath(w.logs, name, 0))
	}
	b.delete("ordered", 30)
	<-w.done
	status := b.get("ordered").Status
	ended := map[string]time.Time{}
	for _, s := range slices.Concat(status.InitContainerStatuses, status.ContainerStatuses) {
		if s.State.Terminated == nil || s.State.Terminated.ExitCode != 0 {
			t.Fatalf("container %s ended as %+v, want exit code 0", s.Name, s.State)
		}
		ended[s.Name] = s.State.Terminated.FinishedAt.Time
	}
	if ended["c"].After(ended["second"]) || ended["d"].After(ended["second"]) || !ended["second"].Before(ended["first"]) {
		t.Errorf("containers ended at %v, want c and d before second, and that before first", ended)
	}
}

// awaitRunning polls until the program has said in its log that it takes signals.
func awaitRunning(t *testing.T, log string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		text, err := os.ReadFile(log)
		if err == nil && strings.Contains(string(text), "running") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("log %s: %q, %v", log, text, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// A preStop hook may call another container of the pod; the container is told to
// stop only once the hook has ended.
func TestPreStopHookOverHTTP(t *testing.T) {
	asked, release := make(chan string, 1), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		<-release
	}))
	defer server.Close()
	port := netip.MustParseAddrPort(server.Listener.Addr().String())

	b := newBench(t)
	pod := testPod("hook", corev1.RestartPolicyAlways, "serve")
	pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{
		Host: port.Addr().String(), Port: intstr.FromInt32(int32(port.Port())), Path: "/shutdown"}}}
	w := b.start(pod)
	b.awaitLog(w, "serving\n")
	deleted := make(chan struct{})
	go func() { b.delete("hook", 300); close(deleted) }()
	if path := <-asked; path != "/shutdown" {
		t.Errorf("the hook asked for %s", path)
	}
	if log := b.log(w, 0); strings.Contains(log, "asked to stop") {
		t.Errorf("the container was asked to stop before its hook had ended: %q", log)
	}
	close(release)
	<-deleted
	<-w.done
}

// roundTrip is a transport made of a function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Only the pod's grace period bounds a hook.
func TestPreStopHookHasNoTimeoutOfItsOwn(t *testing.T) {
	transport := probeClient.Transport
	defer func() { probeClient.Transport = transport }()
	probeClient.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
		if deadline, ok := r.Context().Deadline(); ok {
			t.Errorf("the request of the hook may last until %s", deadline)
		}
		return &http.Response{Body: http.NoBody}, nil
	})
	hook := &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80)}}
	if err := (probeTarget{podIP: "10.244.1.1"}).runHook(context.Background(), hook); err != nil {
		t.Error(err)
	}
}

func TestEphemeralContainerSaysSo(t *testing.T) {
	b := newBench(t)
	pod := testPod("debugged", corev1.RestartPolicyAlways, "serve")
	b.start(pod)
	b.await("debugged", "ready", isReady)
	changed := b.get("debugged")
	changed.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debugger"}}}
	b.node.podChanged(changed)
	b.awaitEvents("Warning UnsupportedPod", "ephemeral containers")
}
