package proxy

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// drains makes a Service whose only endpoint terminates, and is listed as serving still.
func (w *world) drains(name, address string) {
	w.t.Helper()
	w.service(name, "", address)
	at := netip.MustParseAddrPort(address)
	slice := endpointSlice(name, 0, at)
	yes, no := true, false
	slice.Endpoints[0].Conditions = discoveryv1.EndpointConditions{Ready: &no, Serving: &yes, Terminating: &yes}
	w.builder.SetEndpointSlice(slice)
}

// gone returns addresses that refuse connections.
func (w *world) gone(n int) []string {
	addresses := make([]string, n)
	for i := range addresses {
		addresses[i] = unused(w.t)
	}
	return addresses
}

// The last pods may have exited while they are still listed, as ready or as draining. A
// request that comes then waits for the next pod, as one that comes later.
func TestRequestsWaitWhenTheLastPodsHaveGone(t *testing.T) {
	listed := map[string]func(w *world){
		"as ready":    func(w *world) { w.service("stable", "", w.gone(1)...) },
		"as draining": func(w *world) { w.drains("stable", w.gone(1)[0]) },
		"as many":     func(w *world) { w.service("stable", "", w.gone(5)...); w.service("canary", "", w.gone(3)...) },
		"as HTTP/2":   func(w *world) { w.service("stable", "kubernetes.io/h2c", w.gone(2)...) },
	}
	for how, list := range listed {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			for _, h2c := range []bool{false, true} {
				t.Run(fmt.Sprint(how, ", ", method, ", h2c ", h2c), func(t *testing.T) {
					w := newWorld(t)
					w.service("canary", "")
					list(w)
					w.object("stable=80 canary=20")
					w.commit()
					body, client := "", w.client
					if method == http.MethodPost {
						body = "hello"
					}
					if h2c {
						client = h2cClient(t)
					}
					answered := w.inBackground(client, w.request(method, "/", strings.NewReader(body)))
					eventually(t, "the request is held", func() bool { return w.held() == 1 })
					w.service("stable", "")
					w.service("canary", "")
					w.commit()
					w.toldOf("demo/app", 1, 1, 1)
					w.service("stable", "", w.app(echo))
					w.commit()
					if got := <-answered; got != "200  "+body {
						t.Errorf("answered %q, want 200 and %q", got, body)
					}
					w.toldOf("demo/app", 1, 0, 0)
				})
			}
		}
	}
}

// Envoy may have found out first that the pods have gone: its second try waits here.
func TestSecondTriesOfEnvoyWaitWhenTheLastPodHasGone(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "", w.gone(1)...)
	w.object("")
	w.commit()
	r := w.request(http.MethodGet, "/", nil)
	r.Header[routes.SecondTryHeader] = []string{"false"}
	answered := w.inBackground(w.fromEnvoy(w.serveFallback(), "demo/app", false, "stable"), r)
	eventually(t, "the request is held", func() bool { return w.held() == 1 })
	w.service("stable", "")
	w.commit()
	w.toldOf("demo/app", 0, 1, 1)
	w.service("stable", "", w.app(named("next")))
	w.commit()
	if got := <-answered; got != "200  next" {
		t.Errorf("answered %q", got)
	}
}

// A pod takes a request and exits. The request is sent for the second time after the wait,
// and not for the third.
func TestARequestIsRepeatedOnceAlsoAfterAWait(t *testing.T) {
	w := newWorld(t)
	exits, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		c, err := exits.Accept()
		if err != nil {
			return
		}
		_, _ = http.ReadRequest(bufio.NewReader(c))
		_ = exits.Close()
		_ = c.Close()
	}()
	w.service("stable", "", exits.Addr().String())
	w.object("")
	w.commit()
	answered := w.inBackground(w.client, w.request(http.MethodGet, "/", nil))
	eventually(t, "the request is held", func() bool { return w.held() == 1 })
	app, address := w.silent(always)
	w.service("stable", "", address)
	w.commit()
	if got := <-answered; !strings.HasPrefix(got, "502 ") || len(app.took()) != 1 {
		t.Errorf("answered %q, want 502 after one try at the next pod", got)
	}
}

// A request whose endpoints do not accept connections is answered 502 after a wait, for
// which conditionWait is the limit, too. It is no cold start.
func TestRequestsWaitInVainForEndpointsThatDoNotListen(t *testing.T) {
	tests := map[string]struct {
		object func(*httpv1alpha1.HTTPScaledObjectSpec)
		tries  float64
	}{
		"a wait":                      {waitsFor("50ms"), 2},
		"no wait":                     {waitsFor("0s"), 1},
		"no wait, but for a failover": {failover(3600, "0s"), 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.service("stable", "", w.gone(1)...)
			w.object("", tt.object)
			w.commit()
			if res, body := w.do(w.request(http.MethodPost, "/", strings.NewReader("hello"))); res.StatusCode != http.StatusBadGateway {
				t.Errorf("%s %q, want 502", res.Status, body)
			}
			if got := value(t, w.proxy, "interceptor_tries_total", "demo", "app", "stable", string(tryConnectFailure)); got != tt.tries {
				t.Errorf("tried %v times, want %v", got, tt.tries)
			}
			if _, found := find(t, w.proxy, "interceptor_cold_starts_total", "demo", "app", string(waitedInVain)); found {
				t.Error("it counts as a cold start")
			}
		})
	}
}

// An application that listens again at the same address, as when its container has
// restarted, gets the request.
func TestRequestsWaitForAnEndpointThatListensAgain(t *testing.T) {
	w := newWorld(t)
	address := w.gone(1)[0]
	w.service("stable", "", address)
	w.object("")
	w.commit()
	answered := w.inBackground(w.client, w.request(http.MethodGet, "/", nil))
	eventually(t, "the request is held", func() bool { return w.held() == 1 })
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	app := &http.Server{Handler: named("again")}
	defer func() { _ = app.Close() }()
	go func() { _ = app.Serve(l) }()
	if got := <-answered; got != "200  again" {
		t.Errorf("answered %q", got)
	}
}

// Of many endpoints of several Services the only one that listens gets the request, whatever
// its share is.
func TestTheOnlyEndpointThatListensIsFound(t *testing.T) {
	w := newWorld(t)
	w.service("a", "", w.gone(20)...)
	w.service("b", "", w.gone(20)...)
	w.service("c", "", append(w.gone(20), w.app(named("c")))...)
	w.object("a=1000000 b=1000000 c=1")
	w.commit()
	if res, body := w.get("/"); res.StatusCode != http.StatusOK || body != "c" {
		t.Errorf("%s %q, want it from c", res.Status, body)
	}
	if got := value(t, w.proxy, "interceptor_requests_held", "demo", "app"); got != 0 {
		t.Errorf("%v requests are held", got)
	}
}

// A client that leaves during the wait takes its request with it.
func TestARequestThatNobodyTookLeavesWithItsClient(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "", w.gone(1)...)
	w.object("")
	w.commit()
	ctx, leave := context.WithCancel(t.Context())
	answered := w.inBackground(w.client, w.request(http.MethodPost, "/", strings.NewReader("order")).WithContext(ctx))
	eventually(t, "the request is held", func() bool { return w.held() == 1 })
	leave()
	eventually(t, "nothing is held", func() bool { return w.held() == 0 })
	<-answered
	w.toldOf("demo/app", 1, 0, 0)
}

// Once no endpoint is listed, requests that could not be connected wait as others do: they
// go to the failover at its time.
func TestRequestsThatNobodyTookGoToTheFailover(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "", w.gone(1)...)
	w.service("away", "", w.app(named("away")))
	w.object("", failover(0, "10m"))
	w.commit()
	answered := w.inBackground(w.client, w.request(http.MethodGet, "/", nil))
	eventually(t, "the request is held", func() bool { return w.held() == 1 })
	w.service("stable", "")
	w.commit()
	if got := <-answered; got != "200  away" {
		t.Errorf("answered %q", got)
	}
}

// A failover that cannot be connected to is not waited for, and no endpoint of before is
// tried in its place.
func TestAFailoverThatDoesNotListenIsNotWaitedFor(t *testing.T) {
	w := newWorld(t)
	noEndpoint := func() {
		w.service("stable", "")
		w.service("canary", "")
		w.commit()
	}
	w.service("away", "", w.gone(1)...)
	w.object("stable=50 canary=50", failover(0, "10m"))
	noEndpoint()
	if res, _ := w.get("/"); res.StatusCode != http.StatusBadGateway {
		t.Errorf("%s, want 502", res.Status)
	}
	w.service("stable", "", w.gone(1)...)
	w.service("canary", "", w.gone(1)...)
	w.commit()
	answered := w.inBackground(w.client, w.request(http.MethodGet, "/", nil))
	eventually(t, "the request is held", func() bool { return w.held() == 1 })
	noEndpoint()
	if got := <-answered; !strings.HasPrefix(got, "502 ") {
		t.Errorf("answered %q, want 502", got)
	}
	for service, want := range map[string]float64{"stable": 1, "canary": 1, "away": 2} {
		if got := value(t, w.proxy, "interceptor_tries_total", "demo", "app", service, string(tryConnectFailure)); got != want {
			t.Errorf("%s was tried %v times, want %v", service, got, want)
		}
	}
}

// Requests for an application that does not listen take no more of the waiting room than
// those of a cold start, however many come.
func TestAnApplicationThatDoesNotListenLeavesRoomForColdStarts(t *testing.T) {
	w := newWorld(t, func(s *Settings) { s.MaxHeld = 10 })
	w.cold("busy/app", "demo/one")
	w.warm("busy/app", w.gone(1)[0])
	var over atomic.Bool
	var busy sync.WaitGroup
	for range 20 {
		busy.Go(func() {
			for !over.Load() {
				if got := <-w.ask(w.client, "busy/app", 0); !strings.HasPrefix(got, "502 ") && !over.Load() {
					t.Errorf("answered %q, want 502", got)
					return
				}
			}
		})
	}
	eventually(t, "the room is full", func() bool { return w.held() == 10 })
	cold := w.filled(w.client, 5, 0, "demo/one")
	w.warm("demo/one", w.app(named("one")))
	for _, answer := range cold {
		if got := <-answer; got != "200  one" {
			t.Errorf("a cold start is answered %q", got)
		}
	}
	over.Store(true)
	w.warm("busy/app", w.app(named("busy")))
	busy.Wait()
}

// Pods that drain, and no longer listen, may be listed for long: the wait is that of a cold
// start.
func TestRequestsWaitInVainForPodsThatDrain(t *testing.T) {
	w := newWorld(t)
	w.drains("stable", w.gone(1)[0])
	w.object("", waitsFor("50ms"))
	w.commit()
	if res, _ := w.get("/"); res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("%s, want 503", res.Status)
	}
}

// A pod that drains and listens gets requests where there is no other.
func TestPodsThatDrainServe(t *testing.T) {
	w := newWorld(t)
	w.drains("stable", w.app(named("draining")))
	w.object("")
	w.commit()
	if res, body := w.get("/"); res.StatusCode != http.StatusOK || body != "draining" {
		t.Errorf("%s %q, want it from the pod that drains", res.Status, body)
	}
}
