package proxies

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffictest"
)

// manyObjects is how many HTTPScaledObjects appear at once.
const manyObjects = 1000

// TestTrafficManyObjects creates 1,000 HTTPScaledObjects at once, and deletes them
// again, while a split is in use: no request of the split fails, and both proxies serve
// all new objects.
func TestTrafficManyObjects(t *testing.T) {
	s := traffictest.StartApp(t)
	throughEnvoy := traffictest.StartLoad(t, s.Envoy, s.Host)
	load := traffictest.StartLoad(t, s.Embedded, s.Host)
	load.RequireShare("yellow", 20)

	begun := time.Now()
	eachOf(func(i int) {
		if err := s.TryApply(t.Context(), many(s, i).Manifest()); err != nil {
			t.Error(err)
		}
	})
	t.Logf("%d objects after %s", manyObjects, time.Since(begun).Round(time.Millisecond))
	for _, p := range []traffictest.Proxy{s.Embedded, s.Envoy} {
		client := p.Client(t)
		eachOf(func(i int) { awaitStatus(t, client, many(s, i).Hosts[0], http.StatusOK) })
		t.Logf("all served by %s after %s", p.Name, time.Since(begun).Round(time.Millisecond))
	}
	throughEnvoy.RequireShare("yellow", 20)
	load.RequireShare("yellow", 20)

	s.Kubectl("delete", "httpso", "-l", "e2e=many", "--wait=false")
	for _, p := range []traffictest.Proxy{s.Embedded, s.Envoy} {
		client := p.Client(t)
		eachOf(func(i int) { awaitStatus(t, client, many(s, i).Hosts[0], http.StatusNotFound) })
		t.Logf("none served by %s after %s", p.Name, time.Since(begun).Round(time.Millisecond))
	}
	throughEnvoy.RequireShare("yellow", 20)
	throughEnvoy.Finish(nil, "blue", "yellow")
	load.Finish(nil, "blue", "yellow")
}

func many(s traffictest.App, i int) traffictest.Object {
	return traffictest.Object{
		Name: fmt.Sprintf("many-%d", i), Labels: map[string]string{"e2e": "many"},
		Hosts: []string{fmt.Sprintf("%d.%s", i, s.Host)}, Service: "stable",
	}
}

// eachOf calls f for each of the objects, 16 at a time.
func eachOf(f func(i int)) {
	var wg sync.WaitGroup
	for worker := range 16 {
		wg.Go(func() {
			for i := worker; i < manyObjects; i += 16 {
				f(i)
			}
		})
	}
	wg.Wait()
}

// awaitStatus waits until a host is answered with a status; it may be called from any
// goroutine.
func awaitStatus(t *testing.T, client *http.Client, host string, status int) {
	deadline := time.Now().Add(e2etest.Patience)
	for {
		got, err := statusOf(t.Context(), client, host)
		if err == nil && got == status {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("%s: not answered with %d within %s: %d, %v", host, status, e2etest.Patience, got, err)
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func statusOf(ctx context.Context, client *http.Client, host string) (int, error) {
	// One name in all URLs, so that all hosts share connections.
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://proxy.invalid/color", nil)
	if err != nil {
		return 0, err
	}
	request.Host = host
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}
