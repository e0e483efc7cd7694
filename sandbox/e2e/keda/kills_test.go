package keda

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/interceptor"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/interceptor/interceptortest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/keda"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/scaler"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffictest"
)

// scaled is the sample behind a proxy, under 40 requests a second.
type scaled struct {
	*e2etest.Namespace
	proxy traffictest.Proxy
	load  *traffictest.Load
}

// scaledWindow is longer than the time that a new scaler needs to become ready: it
// divides by the time that it has seen.
const scaledWindow = 30 * time.Second

func startScaled(t *testing.T, of func(testing.TB, *e2etest.Namespace) traffictest.Proxy) scaled {
	t.Helper()
	n := e2etest.NewNamespace(t)
	s := scaled{Namespace: n, proxy: of(t, n)}
	host := n.Name + ".test"
	applySample(t, n, host, 2)
	// Two figures in a row, which the HPA reads each 15 s, have to be too small.
	n.Kubectl("patch", "scaledobject", app, "--type=merge",
		"-p", `{"spec":{"advanced":{"horizontalPodAutoscalerConfig":{"behavior":{"scaleDown":{"stabilizationWindowSeconds":20}}}}}}`)
	n.Kubectl("patch", "httpscaledobject", app, "--type=merge",
		"-p", fmt.Sprintf(`{"spec":{"scalingMetric":{"requestRate":{"window":%q}}}}`, scaledWindow))
	s.proxy.AwaitConfigured(t, app)
	// With a tenth less, 7 pods are right.
	s.load = traffictest.StartParallelLoadAt(t, s.proxy, host, 40)
	return s
}

func (s scaled) sent() float64 { return sentRate(s.load.Load, scaledWindow) }

// While 40 requests a second keep 8 pods, each program that the figure passes is killed,
// and then our own are restarted by a rollout. There is never a pod fewer. The figure,
// where there is one, is within 20 % all along, and within 5 % at the end. Only a
// request that a killed proxy had may fail.
func TestPodsStayWhileProgramsEnd(t *testing.T) {
	apps := []scaled{startScaled(t, traffictest.Embedded), startScaled(t, traffictest.Envoy)}
	var ends []func()
	for _, s := range apps {
		awaitReplicas(s.Namespace, 8)
		traffictest.AwaitEndpoints(t, s.Namespace, stableService, 8)
		awaitFigure(t, s.Namespace, app, scaledWindow, s.sent, 5)
		ends = append(ends, watch(t, s))
	}

	shared := func(name string, replicas int) func() corev1.Pod {
		return func() corev1.Pod { return apps[0].AwaitReplicas(t, keda.Namespace, name, replicas)[0] }
	}
	var killed traffictest.Outage
	for _, program := range []struct {
		pod func() corev1.Pod
		// replaced pods have no delay of CrashLoopBackOff, which KEDA's have after a
		// few runs of this test: at its start, KEDA ends a few times by itself.
		replaced bool
	}{
		{shared(keda.Operator, 1), true},
		{shared(keda.MetricsServer, 1), true},
		{shared(scaler.Deployment, 2), false},
		{shared(interceptor.Deployment, interceptortest.Replicas), false},
		{func() corev1.Pod { return apps[1].proxy.Pods(t)[0] }, false},
	} {
		victim := program.pod()
		t.Logf("killing %s", victim.Name)
		killed.Add(func() {
			traffictest.Kill(t, victim)
			if program.replaced {
				e2etest.Shell(t, "kubectl -n "+victim.Namespace+" delete pod "+victim.Name)
				program.pod()
				return
			}
			traffictest.AwaitRestart(t, victim)
		})
		for _, s := range apps {
			awaitFigure(t, s.Namespace, app, 0, s.sent, 20)
		}
	}

	for _, restarted := range []struct{ namespace, deployment string }{
		{keda.Namespace, scaler.Deployment},
		{keda.Namespace, interceptor.Deployment},
		{apps[1].Name, "kedify-proxy"},
	} {
		t.Logf("restarting %s", restarted.deployment)
		e2etest.Shell(t, fmt.Sprintf("kubectl -n %s rollout restart deploy %s", restarted.namespace, restarted.deployment))
		e2etest.Shell(t, fmt.Sprintf("kubectl -n %s rollout status --timeout=2m deploy %s", restarted.namespace, restarted.deployment))
	}
	for _, s := range apps {
		awaitFigure(t, s.Namespace, app, scaledWindow, s.sent, 5)
	}
	for i, s := range apps {
		ends[i]()
		s.load.Finish(killed.MayFail, "blue")
	}
}

// watch reads the figure and the replicas until end is called. That fails the test if
// the Rollout had fewer than 8 replicas, or if a figure was off by more than 20 %. That
// there was no figure is no failure: it was not known then.
func watch(t *testing.T, s scaled) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	known, unknown := 0, 0
	least, most := 1.0, 1.0 // the figure, by what was sent
	slowest := s.sent()
	fewest := int32(8)
	watching.Go(func() {
		_ = e2etest.Poll(ctx, time.Hour, func(ctx context.Context) error {
			sent := s.sent()
			slowest = min(slowest, sent)
			if got, err := figure(ctx, s.Namespace, app); err != nil {
				unknown++
			} else {
				known++
				least, most = min(least, got/sent), max(most, got/sent)
			}
			rollout, err := s.Rollouts.ArgoprojV1alpha1().Rollouts(s.Name).Get(ctx, app, metav1.GetOptions{})
			if err == nil && rollout.Spec.Replicas != nil {
				fewest = min(fewest, *rollout.Spec.Replicas)
			}
			return errors.New("until the end")
		})
	})
	return func() {
		cancel()
		watching.Wait()
		t.Logf("%s: %d figures, from %.2f to %.2f of what was sent, %.1f a second at the least; %d times none; %d replicas at the least",
			s.proxy.Name, known, least, most, slowest, unknown, fewest)
		if least < 0.8 || most > 1.2 || fewest < 8 || known == 0 {
			t.Errorf("%s: want figures within 20 %%, and 8 replicas", s.proxy.Name)
		}
	}
}
