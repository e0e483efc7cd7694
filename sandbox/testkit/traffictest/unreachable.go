package traffictest

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/podnet"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// CutOffAPIServer drops what a pod sends to the API server, until restore is called or the
// test ends.
func CutOffAPIServer(t testing.TB, pod corev1.Pod) (restore func()) {
	t.Helper()
	service, err := e2etest.Connect(t).Kube.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ids, err := processes(pod.Name)
	if err != nil || len(ids) == 0 {
		t.Fatalf("the processes of pod %s: %v, %v", pod.Name, ids, err)
	}
	end, err := podnet.MakeUnreachable(ids[0], netip.MustParseAddr(service.Spec.ClusterIP))
	if err != nil {
		t.Fatal(err)
	}
	restored := false
	restore = func() {
		if restored {
			return
		}
		restored = true
		if err := end(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(restore)
	return restore
}
