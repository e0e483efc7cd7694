package proxy

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

func (w *world) held() int {
	w.proxy.waiting.mu.Lock()
	defer w.proxy.waiting.mu.Unlock()
	return w.proxy.waiting.held
}

func TestHeldRequestsGoOnWithTheFirstEndpoint(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "")
	w.service("canary", "")
	w.object("stable=80 canary=20")
	w.commit()
	const requests = 200
	var wg sync.WaitGroup
	for range requests {
		wg.Go(func() {
			r := w.request(http.MethodPost, "/", strings.NewReader("hello"))
			res, err := w.client.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			if body, err := io.ReadAll(res.Body); err != nil || string(body) != "hello" {
				t.Errorf("%s %q %v", res.Status, body, err)
			}
		})
	}
	eventually(t, "all requests are held", func() bool { return w.held() == requests })
	w.service("canary", "", w.app(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	w.commit()
	wg.Wait()
	if n := w.held(); n != 0 {
		t.Errorf("%d are held still", n)
	}
	if got := value(t, w.proxy, "interceptor_cold_starts_total", "demo", "app", "served"); got != requests {
		t.Errorf("%v cold starts counted, want %d", got, requests)
	}
}

func TestColdStartBounds(t *testing.T) {
	wait := func(text string) func(*httpv1alpha1.HTTPScaledObjectSpec) {
		return func(spec *httpv1alpha1.HTTPScaledObjectSpec) {
			spec.Timeouts = &httpv1alpha1.Timeouts{ConditionWait: &text}
		}
	}
	tests := map[string]struct {
		settings func(*Settings)
		object   func(*httpv1alpha1.HTTPScaledObjectSpec)
	}{
		"time of the object":         {func(*Settings) {}, wait("1ms")},
		"no time":                    {func(*Settings) {}, wait("0s")},
		"time of the interceptor":    {func(s *Settings) { s.ConditionWait = time.Millisecond }, func(*httpv1alpha1.HTTPScaledObjectSpec) {}},
		"number":                     {func(s *Settings) { s.MaxHeld = 0 }, wait("10m")},
		"number of one object":       {func(s *Settings) { s.MaxHeldPerRoute = 0 }, wait("10m")},
		"bytes":                      {func(s *Settings) { s.MaxHeldBytes = 10 }, wait("10m")},
		"time, though others longer": {func(s *Settings) { s.ConditionWait = time.Hour }, wait("1ms")},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tt.settings)
			w.service("stable", "")
			w.object("", tt.object)
			w.commit()
			res, body := w.get("/")
			if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") != "5" || !strings.Contains(body, "demo/app") {
				t.Errorf("%s, Retry-After %q, %q", res.Status, res.Header.Get("Retry-After"), body)
			}

			// With a failover it goes there.
			port, now := int32(80), int32(0)
			w.service("waiting-page", "", w.app(named("please wait")))
			w.object("", tt.object, func(spec *httpv1alpha1.HTTPScaledObjectSpec) {
				spec.ColdStartTimeoutFailoverRef = &httpv1alpha1.ColdStartTimeoutFailoverRef{Service: "waiting-page", Port: &port, TimeoutSeconds: &now}
			})
			w.commit()
			if res, body := w.get("/"); res.StatusCode != http.StatusOK || body != "please wait" {
				t.Errorf("with a failover: %s %q", res.Status, body)
			}
		})
	}
}

func TestOnePlaceToWait(t *testing.T) {
	w := newWorld(t, func(s *Settings) { s.MaxHeld = 1 })
	w.service("stable", "")
	w.object("")
	w.commit()
	first := make(chan int, 1)
	r := w.request(http.MethodGet, "/", nil)
	go func() {
		res, err := w.client.Do(r)
		if err != nil {
			t.Error(err)
			first <- 0
			return
		}
		_ = res.Body.Close()
		first <- res.StatusCode
	}()
	eventually(t, "the first is held", func() bool { return w.held() == 1 })
	if res, _ := w.get("/"); res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("the second: %s, want 503", res.Status)
	}
	w.service("stable", "", w.app(named("here")))
	w.commit()
	if code := <-first; code != http.StatusOK {
		t.Errorf("the first: %d, want 200", code)
	}
}

func TestHeldRequestIsGivenUpWithItsClientAndItsObject(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "")
	w.object("")
	w.commit()
	ctx, cancel := context.WithCancel(context.Background())
	gone := make(chan error, 1)
	r := w.request(http.MethodGet, "/", nil).WithContext(ctx)
	go func() {
		res, err := w.client.Do(r)
		if err == nil {
			_ = res.Body.Close()
		}
		gone <- err
	}()
	eventually(t, "the request is held", func() bool { return w.held() == 1 })
	cancel()
	if err := <-gone; err == nil {
		t.Error("answered after the client left")
	}
	eventually(t, "the request is given up", func() bool { return w.held() == 0 })

	code := make(chan int, 1)
	r = w.request(http.MethodGet, "/", nil)
	go func() {
		res, err := w.client.Do(r)
		if err != nil {
			t.Error(err)
			code <- 0
			return
		}
		_ = res.Body.Close()
		code <- res.StatusCode
	}()
	eventually(t, "the request is held", func() bool { return w.held() == 1 })
	for route := range w.proxy.Table().Routes() {
		w.builder.DeleteHTTPScaledObject(route.Name)
	}
	w.commit()
	if got := <-code; got != http.StatusNotFound {
		t.Errorf("%d after the object is gone, want 404", got)
	}
}
