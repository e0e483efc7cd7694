// Package killing has tests that pass although they kill what they must not kill:
// TestDeaths runs them. The package is in testdata so that nothing else does.
package killing

import (
	"os"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/interceptor"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/interceptor/interceptortest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffictest"
)

func TestMain(m *testing.M) { os.Exit(e2etest.RunTests(m, "killing", interceptor.Name)) }

func TestKillEtcd(t *testing.T) {
	sandbox, err := cluster.Current()
	if err != nil {
		t.Fatal(err)
	}
	status, err := sandbox.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, component := range status.Components {
		if component.Name == cluster.Etcd {
			if err := syscall.Kill(component.PID, syscall.SIGKILL); err != nil {
				t.Fatalf("killing process %d: %v", component.PID, err)
			}
		}
	}
}

func TestKillInterceptor(t *testing.T) { kill(t, interceptortest.Pods(t)[0]) }

// The Envoy is in a namespace that the run did not begin with.
func TestKillKedifyProxy(t *testing.T) {
	kill(t, traffictest.Envoy(t, e2etest.NewNamespace(t)).Pods(t)[0])
}

// kill kills a pod, and waits until the node has noticed it: a test run that is over by then
// would miss it.
func kill(t *testing.T, pod corev1.Pod) {
	t.Helper()
	traffictest.KillUnannounced(t, pod)
	traffictest.AwaitRestart(t, pod)
}
