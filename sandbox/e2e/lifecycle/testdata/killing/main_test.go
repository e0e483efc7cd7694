// Package killing has tests that pass although they kill what they must not kill:
// TestDeaths runs them. The package is in testdata so that nothing else does.
package killing

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

func TestKillInterceptor(t *testing.T) {
	pod := interceptortest.Pods(t)[0]
	traffictest.KillUnannounced(t, pod)
	// The node notices the end later: a test run that is over by then would miss it.
	c := e2etest.Connect(t)
	e2etest.Eventually(t, e2etest.Patience, "a restart of pod "+pod.Name, func(ctx context.Context) error {
		now, err := c.Kube.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err == nil && e2etest.Restarts(*now) == e2etest.Restarts(pod) {
			err = errors.New("it has not been restarted")
		}
		return err
	})
}
