package node

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// servingPod returns a pod that asks for a host port.
func servingPod(name string, hostPort int32, hostIP string) *corev1.Pod {
	pod := testPod(name, corev1.RestartPolicyAlways, "serve")
	c := &pod.Spec.Containers[0]
	c.Ports = []corev1.ContainerPort{{ContainerPort: 8080, HostPort: hostPort, HostIP: hostIP}}
	c.ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8080)}}}
	return pod
}

// awaitEvents polls until one Event has all the parts.
func (b *bench) awaitEvents(parts ...string) {
	b.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for events := b.seen(); !hasEvent(events, parts...); events = append(events, b.seen()...) {
		if time.Now().After(deadline) {
			b.t.Fatalf("no event with %q in %q", parts, events)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// The node's address answers on a pod's host port until the pod has ended.
func TestHostPort(t *testing.T) {
	b := newBench(t)
	for name, tc := range map[string]struct {
		port       int32
		ip, answer string
	}{
		"any-address": {8081, "", "10.244.0.1"},
		"unspecified": {8082, "0.0.0.0", "10.244.0.1"},
		"loopback":    {8083, "127.0.0.1", "127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := b.start(servingPod(name, tc.port, tc.ip))
			b.await(name, "ready", isReady)
			address := net.JoinHostPort(tc.answer, strconv.Itoa(int(tc.port)))
			response, err := http.Get("http://" + address)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, response.Body); err != nil {
				t.Error(err)
			}
			_ = response.Body.Close()
			if response.StatusCode != http.StatusNotFound {
				t.Errorf("%s answers %s, want the pod's 404", address, response.Status)
			}
			b.delete(name, 1)
			<-w.done
			if conn, err := net.Dial("tcp4", address); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("after the pod's end: %v, %v; want connection refused", conn, err)
			}
		})
	}
}

// A pod whose host port is in use waits for it, and an Event says so.
func TestHostPortTaken(t *testing.T) {
	b := newBench(t)
	taken, err := net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(netip.MustParseAddrPort("10.244.0.1:8084")))
	if err != nil {
		t.Fatal(err)
	}
	w := b.start(servingPod("late", 8084, ""))
	b.awaitEvents("Warning FailedCreatePodSandBox", "hostPort 8084 of container c: listen on TCP 10.244.0.1:8084: address already in use")
	b.await("late", "pending", inPhase(corev1.PodPending))
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	b.await("late", "ready", isReady)
	b.delete("late", 1)
	<-w.done

	b.start(servingPod("foreign", 8084, "192.0.2.1"))
	b.awaitEvents("Warning FailedCreatePodSandBox", "192.0.2.1:8084: cannot assign requested address")
}
