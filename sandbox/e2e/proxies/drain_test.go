package proxies

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/interceptor/interceptortest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffictest"
)

// TestTrafficInterceptorsRestarted restarts the interceptors under load, as an upgrade
// does: neither proxy fails a request, the new interceptors split as the old ones did,
// and Envoy gets the next weight from them. The old interceptors complete requests that
// wait for their application. From then on the interceptors of this package read the cluster
// as they will with Kubernetes 1.35's libraries.
func TestTrafficInterceptorsRestarted(t *testing.T) {
	s := traffictest.StartApp(t)
	// The second variable has the pods replaced, whatever the first was before.
	restart := "kubectl -n " + interceptortest.Namespace + " set env deploy/" + interceptortest.Deployment +
		" KUBE_FEATURE_WatchListClient=true RESTARTED_BY=" + s.Name
	throughEnvoy := traffictest.StartLoad(t, s.Envoy, s.Host)
	load := traffictest.StartLoad(t, s.Embedded, s.Host)
	load.RequireShare("yellow", 20)
	underRestart(t, s, s.Embedded, restart, noLongerListens)
	load.RequireShare("yellow", 20)
	throughEnvoy.RequireShare("yellow", 20)

	s.SetWeight(t, 60)
	load.RequireShare("yellow", 60)
	throughEnvoy.RequireShare("yellow", 60)
	load.Finish(nil, "blue", "yellow")
	throughEnvoy.Finish(nil, "blue", "yellow")
}

// TestTrafficKedifyProxiesRestarted restarts the kedify-proxies under load: no request
// fails, not even one that waits for its application, and the new Envoys split as the
// old ones did.
func TestTrafficKedifyProxiesRestarted(t *testing.T) {
	s := traffictest.StartApp(t)
	load := traffictest.StartParallelLoad(t, s.Envoy, s.Host)
	load.RequireShare("yellow", 20)
	underRestart(t, s, s.Envoy, "kubectl -n "+s.Name+" rollout restart deploy/kedify-proxy", isLeft)
	load.RequireShare("yellow", 20)

	s.SetWeight(t, 60)
	load.RequireShare("yellow", 60)
	load.Finish(nil, "blue", "yellow")
	events, err := s.Kube.CoreV1().Events(s.Name).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=FailedPreStopHook"})
	if err != nil {
		t.Fatal(err)
	}
	for _, event := range events.Items {
		t.Errorf("pod %s: %s", event.InvolvedObject.Name, event.Message)
	}
}

// underRestart restarts a proxy, and returns when nothing is left of its old pods.
// Meanwhile clients that make a connection for each request lose none: at any moment
// the Service has to lead to a pod that serves. Requests also wait at each old pod;
// they are answered when leaves returns nil for the pod, which then waits for nothing
// else.
func underRestart(t *testing.T, s traffictest.App, p traffictest.Proxy, restart string, leaves func(context.Context, corev1.Pod) error) {
	t.Helper()
	old := p.Pods(t)
	waiting := startWaiting(t, s, p, old)
	connecting, err := traffic.Start(traffic.Options{
		Target: p.Address, Host: s.Host, Rate: 50, Connections: 4, NewConnections: true, Timeout: 30 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connecting.Stop() })

	e2etest.Shell(t, restart)
	// The pods may leave in any order, and each has a limited time for it.
	left := map[string]bool{}
	e2etest.Eventually(t, e2etest.Patience, "only requests under way hold the old pods", func(ctx context.Context) error {
		var stay error
		for _, pod := range old {
			if left[pod.Name] {
				continue
			}
			// Requests that were cut off are reported below.
			if err := leaves(ctx, pod); err != nil && !waiting.ended(pod.Name) {
				stay = errors.Join(stay, fmt.Errorf("%s: %w", pod.Name, err))
				continue
			}
			left[pod.Name] = true
			waiting.answer(pod.Name)
		}
		return stay
	})
	waiting.requireAnswered(t)
	for _, pod := range p.Pods(t) {
		if left[pod.Name] {
			t.Errorf("%s was not restarted", pod.Name)
		}
	}
	for _, a := range connecting.Stop() {
		if a.Failed() || a.Backend != "blue" && a.Backend != "yellow" {
			t.Errorf("%s, on a connection of its own: %s", p.Name, a)
		}
	}
}

// noLongerListens returns nil if an interceptor has stopped accepting connections: from
// then on it waits only for the requests under way.
func noLongerListens(ctx context.Context, pod corev1.Pod) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", strings.TrimPrefix(e2etest.PodURL(pod, 8080), "http://"))
	if err == nil {
		_ = conn.Close()
		return errors.New("it takes connections")
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return nil
}

// isLeft returns nil if an Envoy drains and its clients have closed their connections,
// as it has asked them to, except for those of the waiting requests.
func isLeft(ctx context.Context, pod corev1.Pod) error {
	const active = "http.kedify-proxy.downstream_cx_active"
	if got, err := e2etest.Ask(ctx, e2etest.PodURL(pod, 9901)+"/ready", ""); err != nil || got.Status != http.StatusServiceUnavailable {
		return errors.Join(fmt.Errorf("its readiness is %d", got.Status), err)
	}
	stats, err := e2etest.Get(ctx, e2etest.PodURL(pod, 9901)+"/stats?filter="+active, "")
	if err != nil {
		return err
	}
	if want := fmt.Sprintf("%s: %d", active, len(waitingKinds)); strings.TrimSpace(stats) != want {
		return fmt.Errorf("it says %q, want %q", stats, want)
	}
	return nil
}

// waitingKinds say what has arrived of the answer to a waiting request: nothing, or the
// header and the first half of the body.
var waitingKinds = []string{"none", "half"}

// waiting are requests for an application that delays its answers.
type waiting struct {
	requests sync.WaitGroup
	release  map[string]func() // by pod

	mu       sync.Mutex
	arrived  map[string]int    // by path
	outcomes map[string]string // by path
}

// startWaiting sends a request of each kind to each of the pods of a proxy, and
// returns when the application has them all.
func startWaiting(t *testing.T, s traffictest.App, p traffictest.Proxy, pods []corev1.Pod) *waiting {
	t.Helper()
	w := &waiting{release: map[string]func(){}, arrived: map[string]int{}, outcomes: map[string]string{}}
	released := map[string]chan struct{}{}
	for _, pod := range pods {
		answer := make(chan struct{})
		released[pod.Name] = answer
		w.release[pod.Name] = sync.OnceFunc(func() { close(answer) })
	}
	url := e2etest.Serve(t, http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.arrived[r.URL.Path]++
		w.mu.Unlock()
		pod, kind, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if kind == "half" {
			_, _ = io.WriteString(out, "one ")
			_ = http.NewResponseController(out).Flush()
		}
		select {
		case <-released[pod]:
		case <-r.Context().Done():
			return
		}
		if kind != "half" {
			_, _ = io.WriteString(out, "one ")
		}
		_, _ = io.WriteString(out, "two")
	}))
	host := "waiting." + s.Host
	s.ServiceAt("waiting", traffictest.Addr(strings.TrimPrefix(url, "http://")), "")
	// Longer than a proxy waits for an answer by default.
	s.Apply(fmt.Sprintf(`
apiVersion: http.keda.sh/v1alpha1
kind: HTTPScaledObject
metadata:
  name: waiting
  annotations:
    httpscaledobject.keda.sh/skip-scaledobject-creation: "true"
spec:
  hosts: [%q]
  scaleTargetRef: {service: waiting, port: 80}
  timeouts: {responseHeader: %s}
`, host, 2*e2etest.Patience))
	p.AwaitConfigured(t, "waiting")

	for _, pod := range pods {
		for _, kind := range waitingKinds {
			path := "/" + pod.Name + "/" + kind
			w.requests.Go(func() {
				outcome := ""
				got, err := e2etest.Ask(t.Context(), e2etest.PodURL(pod, 8080)+path, host)
				if err != nil {
					outcome = err.Error() + " after "
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				w.outcomes[path] = outcome + fmt.Sprintf("%d %s", got.Status, got.Body)
			})
		}
	}
	t.Cleanup(func() {
		for _, pod := range pods {
			w.answer(pod.Name)
		}
		w.requests.Wait()
	})
	e2etest.Eventually(t, e2etest.Patience, "the application has all requests", func(context.Context) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.outcomes) > 0 || len(w.arrived) != len(pods)*len(waitingKinds) {
			return fmt.Errorf("it has %v, and answered are %v", w.arrived, w.outcomes)
		}
		return nil
	})
	return w
}

// answer lets the application answer the requests that came through a pod.
func (w *waiting) answer(pod string) { w.release[pod]() }

// ended says whether any request at a pod has ended.
func (w *waiting) ended(pod string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for path := range w.outcomes {
		if strings.HasPrefix(path, "/"+pod+"/") {
			return true
		}
	}
	return false
}

// requireAnswered waits for the answers, and fails the test unless each request
// was sent to the application once and has the whole answer.
func (w *waiting) requireAnswered(t *testing.T) {
	t.Helper()
	w.requests.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for path, times := range w.arrived {
		if times != 1 || w.outcomes[path] != "200 one two" {
			t.Errorf("request %s, which reached the application %d times: %q", path, times, w.outcomes[path])
		}
	}
}
