package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/interceptor/interceptortest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffictest"
)

// TestTrafficColdStart has 200 requests, some of them with a body, wait for the first
// pod of a split whose sides are both scaled to zero. That pod answers all of them; none
// is lost or sent twice.
func TestTrafficColdStart(t *testing.T) {
	t.Parallel()
	traffictest.Both(t, func(t *testing.T, n *e2etest.Namespace, p traffictest.Proxy) {
		const waiting = 200
		host := n.Name + ".test"
		n.Apply(traffictest.Deployment("stable", "blue", 0) + traffictest.Deployment("canary", "yellow", 0) +
			traffictest.Object{Name: "app", Hosts: []string{host}, Service: "stable", ConditionWait: e2etest.Patience.String()}.Manifest())
		traffictest.Split(t, n, "app", e2etest.Weight{Service: "stable", Weight: 80}, e2etest.Weight{Service: "canary", Weight: 20})
		p.AwaitConfigured(t, "app")

		client := p.Client(t)
		outcomes := make([]string, waiting)
		var wg sync.WaitGroup
		for i := range waiting {
			wg.Go(func() { outcomes[i] = coldRequest(t.Context(), client, "http://"+host+"/color", i) })
		}
		e2etest.Eventually(t, e2etest.Patience, "all requests wait", func(ctx context.Context) error {
			held, err := interceptorMetric(ctx, t, "interceptor_requests_held", fmt.Sprintf("namespace=%q", n.Name))
			if err == nil && held != waiting {
				err = fmt.Errorf("%d of %d do", held, waiting)
			}
			return err
		})
		n.Kubectl("scale", "deployment", "stable", "--replicas=1")
		wg.Wait()
		for i, outcome := range outcomes {
			if outcome != `200 "blue"` {
				t.Errorf("request %d: %s", i, outcome)
			}
		}
		log := n.Kubectl("logs", "deployment/stable")
		if answered := strings.Count(log, "200 blue"); answered != waiting {
			t.Errorf("the pod has answered %d requests, want %d", answered, waiting)
		}

		// The canary's pod takes its share when it comes.
		n.Kubectl("scale", "deployment", "canary", "--replicas=1")
		traffictest.AwaitEndpoints(t, n, "canary", 1)
		load := traffictest.StartLoad(t, p, host)
		load.AwaitBoth("blue", "yellow")
		load.RequireShare("yellow", 20)
		load.Finish(nil, "blue", "yellow")
		requireLogged(t, n, p, host)
	})
}

// requireLogged annotates the object, and waits until a request of it is a line in the
// access log of one of the proxy's pods, with the object, the Service and the code.
func requireLogged(t *testing.T, n *e2etest.Namespace, p traffictest.Proxy, host string) {
	t.Helper()
	if log := accessLog(t.Context(), t, n, p, host); len(log) > 0 {
		t.Errorf("requests of an object without the annotation are logged: %v", log[0])
	}
	yes := "true"
	n.Annotate("app", map[string]*string{"http.kedify.io/access-log": &yes})
	client := p.Client(t)
	e2etest.Eventually(t, e2etest.Patience, "a line of a request in the access log", func(ctx context.Context) error {
		if outcome := coldRequest(ctx, client, "http://"+host+"/color?secret", 1); !strings.HasPrefix(outcome, "200 ") {
			t.Errorf("answered %s", outcome)
		}
		log := accessLog(ctx, t, n, p, host)
		if len(log) == 0 {
			return errors.New("there is none yet")
		}
		for _, line := range log {
			cluster := line["cluster"]
			if p.Name == "embedded" {
				cluster = fmt.Sprint(line["object"], "/", line["service"])
			}
			if split := n.Name + "/app/"; cluster != split+"stable" && cluster != split+"canary" || line["code"] != 200.0 || line["path"] != "/color" || line["flags"] != "-" {
				t.Errorf("a line is %v", line)
			}
		}
		return nil
	})
}

// accessLog returns the lines about a host of the access logs of the proxy's pods.
func accessLog(ctx context.Context, t *testing.T, n *e2etest.Namespace, p traffictest.Proxy, host string) (lines []map[string]any) {
	t.Helper()
	for _, pod := range p.Pods(t) {
		log, err := n.Kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for text := range strings.Lines(string(log)) {
			var line map[string]any
			if json.Unmarshal([]byte(text), &line) == nil && line["host"] == host && line["request_id"] != nil {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// coldRequest sends a request, and returns the status and body of the response, or the
// error. Every third request has a body.
func coldRequest(ctx context.Context, client *http.Client, url string, number int) string {
	method, body := http.MethodGet, io.Reader(nil)
	if number%3 == 0 {
		method, body = http.MethodPost, strings.NewReader(strings.Repeat("a", 1+number*100))
	}
	request, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return err.Error()
	}
	response, err := client.Do(request)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d %s", response.StatusCode, answer)
}

// interceptorMetric returns the sum of a metric over all interceptors, and over the
// series whose labels contain a text.
func interceptorMetric(ctx context.Context, t *testing.T, metric, label string) (int, error) {
	sum := 0
	for _, pod := range interceptortest.Pods(t) {
		metrics, err := e2etest.Get(ctx, e2etest.PodURL(pod, 2223)+"/metrics", "")
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(metrics) {
			series, value, _ := strings.Cut(line, " ")
			name, labels, _ := strings.Cut(series, "{")
			if name != metric || !strings.Contains(labels, label) {
				continue
			}
			var count float64
			if _, err := fmt.Sscan(value, &count); err != nil {
				return 0, fmt.Errorf("%s: %w", line, err)
			}
			sum += int(count)
		}
	}
	return sum, nil
}
