//go:build !race

package main

// The race detector takes many times the memory.

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// An application that hangs takes the interceptor's memory, which then is short: the
// requests to it get 503, and those to others are served all the time.
func TestAnApplicationThatHangsLeavesMemoryForOthers(t *testing.T) {
	m := newMeasured(t, 2, "kubernetes.io/h2c", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			<-r.Context().Done()
			return
		}
		ok(w, r)
	}, "GOMEMLIMIT=150MiB")
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	defer clients.Wait()
	defer cancel()
	var refused atomic.Int64
	ask := func(client *http.Client) {
		for ctx.Err() == nil {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/hang", m.ports["proxy-port"]), nil)
			if err != nil {
				t.Error(err)
				return
			}
			request.Host = hostOf(0)
			response, err := client.Do(request)
			if err != nil {
				return
			}
			_ = response.Body.Close()
			if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" {
				t.Errorf("answered %s", response.Status)
				return
			}
			refused.Add(1)
			select { // a client that comes again
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}
	clients.Go(func() {
		var client *http.Client
		for i := 0; ctx.Err() == nil; i++ {
			if i%100 == 0 {
				client = neverReading(t)
			}
			clients.Go(func() { ask(client) })
			time.Sleep(8 * time.Millisecond)
		}
	})
	other := newClient(t, &http.Transport{DisableKeepAlives: true})
	served := 0
	m.eventually("many requests to the application are refused", func() bool {
		if _, err := m.get(other, m.ports["proxy-port"], "/", hostOf(1)); err != nil {
			t.Fatalf("after %d answers, another object: %v", served, err)
		}
		served++
		return refused.Load() > 300 && m.metric("interceptor_memory_short") == 1
	})
	t.Logf("%d requests of another are served, and %d refused", served, refused.Load())
}
