// Package killing has tests that pass, and end what they must not: TestDeaths runs
// it. It is in testdata so that nobody else does.
package killing

import (
	"os"
	"syscall"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/interceptor"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/interceptor/interceptortest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/e2e/internal/traffictest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/e2etest"
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
	traffictest.KillUnannounced(t, interceptortest.Pods(t)[0])
	interceptortest.Pods(t)
}
