package proxy

import (
	"context"
	"errors"
	"fmt"
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
	return int(w.proxy.waiting.all.used[inRequests])
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

// waitsFor has requests of an object wait for so long, such as 50ms.
func waitsFor(wait string) func(*httpv1alpha1.HTTPScaledObjectSpec) {
	return func(spec *httpv1alpha1.HTTPScaledObjectSpec) {
		spec.Timeouts = &httpv1alpha1.Timeouts{ConditionWait: &wait}
	}
}

func TestColdStartBounds(t *testing.T) {
	tests := map[string]struct {
		settings func(*Settings)
		object   func(*httpv1alpha1.HTTPScaledObjectSpec)
	}{
		"time of the object":         {func(*Settings) {}, waitsFor("1ms")},
		"no time":                    {func(*Settings) {}, waitsFor("0s")},
		"time of the interceptor":    {func(s *Settings) { s.ConditionWait = time.Millisecond }, func(*httpv1alpha1.HTTPScaledObjectSpec) {}},
		"number":                     {func(s *Settings) { s.MaxHeld = 0 }, waitsFor("10m")},
		"number of one object":       {func(s *Settings) { s.MaxHeldPerRoute = 0 }, waitsFor("10m")},
		"bytes":                      {func(s *Settings) { s.MaxHeldBytes = 10 }, waitsFor("10m")},
		"time, though others longer": {func(s *Settings) { s.ConditionWait = time.Hour }, waitsFor("1ms")},
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

			// With a failover, the request goes there.
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

// failover sends an object's waiting requests to Service away after so many seconds. If
// that has no endpoint then, they go on waiting until wait has passed.
func failover(after int32, wait string) func(*httpv1alpha1.HTTPScaledObjectSpec) {
	return func(spec *httpv1alpha1.HTTPScaledObjectSpec) {
		port := int32(80)
		spec.Timeouts = &httpv1alpha1.Timeouts{ConditionWait: &wait}
		spec.ColdStartTimeoutFailoverRef = &httpv1alpha1.ColdStartTimeoutFailoverRef{Service: "away", Port: &port, TimeoutSeconds: &after}
	}
}

// status requests / in the background; the status code comes on the channel, 0 for an
// error.
func (w *world) status() <-chan int {
	code := make(chan int, 1)
	r := w.request(http.MethodGet, "/", nil)
	go func() {
		res, err := w.client.Do(r)
		if err != nil {
			w.t.Error(err)
			code <- 0
			return
		}
		_ = res.Body.Close()
		code <- res.StatusCode
	}()
	return code
}

func TestFailoverWithoutAnEndpoint(t *testing.T) {
	away := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }
	tests := map[string]struct {
		wait string
		then func(*world) // once the request waits
		want int
	}{
		"the target comes":   {"10m", func(w *world) { w.service("stable", "", w.app(named("stable"))) }, http.StatusOK},
		"the failover comes": {"10m", func(w *world) { w.service("away", "", w.app(away)) }, http.StatusAccepted},
		"nobody comes":       {"50ms", func(*world) {}, http.StatusServiceUnavailable},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.service("stable", "")
			w.service("away", "")
			w.object("", failover(0, tt.wait))
			w.commit()
			code := w.status()
			if tt.want != http.StatusServiceUnavailable {
				eventually(t, "the request is held", func() bool { return w.held() == 1 })
			}
			tt.then(w)
			w.commit()
			if got := <-code; got != tt.want {
				t.Errorf("answered %d, want %d", got, tt.want)
			}
		})
	}
}

// If the failover has no endpoint when its time comes, the request waits for it, too.
func TestFailoverThatComesLate(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "")
	w.service("away", "")
	w.object("", failover(1, "10m"))
	w.commit()
	code := w.status()
	late := func() bool {
		w.proxy.waiting.mu.Lock()
		defer w.proxy.waiting.mu.Unlock()
		for _, c := range w.proxy.waiting.cold {
			return c.object.newest().late
		}
		return false
	}
	eventually(t, "the failover's time is over", late)
	w.service("away", "", w.app(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	w.commit()
	if got := <-code; got != http.StatusAccepted {
		t.Errorf("answered %d, want that of the failover, 202", got)
	}
	if got := value(t, w.proxy, "interceptor_cold_starts_total", "demo", "app", "failover"); got != 1 {
		t.Errorf("%v counted as failover, want 1", got)
	}
}

// gRPC calls have no Content-Length. By default, 1,700 of them can wait.
func TestCallsOfGRPCAreHeld(t *testing.T) {
	const calls = 1700
	w := newWorld(t)
	w.service("stable", "kubernetes.io/h2c")
	w.object("")
	w.commit()
	client := h2cClient(t)
	var wg sync.WaitGroup
	for range calls {
		r := w.request(http.MethodPost, "/pkg.Service/Method", struct{ io.Reader }{strings.NewReader("hello")})
		wg.Go(func() {
			res, err := client.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			if body, err := io.ReadAll(res.Body); res.StatusCode != http.StatusOK || string(body) != "hello" || err != nil {
				t.Errorf("%s %q %v", res.Status, body, err)
			}
		})
	}
	eventually(t, "all calls are held", func() bool { return w.held() == calls })
	w.service("stable", "kubernetes.io/h2c", w.appServer(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }, true).Listener.Addr().String())
	w.commit()
	wg.Wait()
}

func TestClientOfHTTP2ThatLeaves(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "kubernetes.io/h2c")
	w.object("")
	w.commit()
	client := h2cClient(t)
	ctx, cancel := context.WithCancel(context.Background())
	r := w.request(http.MethodPost, "/pkg.Service/Method", struct{ io.Reader }{strings.NewReader("hello")}).WithContext(ctx)
	gone := make(chan error, 1)
	go func() {
		res, err := client.Do(r)
		if err == nil {
			_ = res.Body.Close()
		}
		gone <- err
	}()
	eventually(t, "the call is held", func() bool { return w.held() == 1 })
	cancel()
	eventually(t, "the call is given up", func() bool { return w.held() == 0 })
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("the client got %v", err)
	}
}

func TestShutdownAnswersThoseWhoAreHeld(t *testing.T) {
	for _, comes := range []bool{false, true} {
		for _, client := range []string{"HTTP/1.1", "h2c"} {
			t.Run(fmt.Sprint(client, ", an endpoint comes ", comes), func(t *testing.T) {
				w := newWorld(t, func(s *Settings) { s.ConditionWait = time.Hour })
				w.service("stable", "")
				w.object("")
				w.commit()
				if client == "h2c" {
					w.client = h2cClient(t)
				}
				code := w.status()
				eventually(t, "the request is held", func() bool { return w.held() == 1 })
				timeout, want := patience, http.StatusOK
				if !comes {
					timeout, want = 2*time.Second, http.StatusServiceUnavailable
				}
				ctx, cancel := context.WithTimeout(context.Background(), timeout)
				defer cancel()
				done := make(chan error, 1)
				go func() { done <- w.server.Shutdown(ctx) }()
				eventually(t, "no more connections are taken", func() bool { return !listens(w.address) })
				if comes {
					w.service("stable", "", w.app(named("here")))
					w.commit()
				}
				if got := <-code; got != want {
					t.Errorf("answered %d, want %d", got, want)
				}
				if err := <-done; err != nil {
					t.Errorf("Shutdown: %v", err)
				}
			})
		}
	}
}
