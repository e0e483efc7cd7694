package proxy

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// hanging is an application that does not answer /hang before released is closed, and
// answers the rest with its name.
func hanging(name string, released <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			<-released
		}
		_, _ = io.WriteString(w, name)
	}
}

// A Service with as many requests under way as there may be gets no more: 503 with
// Retry-After, a metric and a Problem tell of it. The other Service of the object goes on.
func TestRequestsToOneServiceAreBounded(t *testing.T) {
	w := newWorld(t, func(s *Settings) { s.MaxUpstreamRequests = 2 })
	released := make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	t.Cleanup(release)
	w.service("stable", "", w.app(hanging("stable", released)))
	w.service("canary", "", w.app(hanging("canary", released)))
	w.object("stable=100 canary=0")
	w.commit()
	underWay := func() float64 { return value(t, w.proxy, "interceptor_requests_in_flight", "demo", "app", "stable") }
	answers := []asked{
		w.inBackground(w.client, w.request(http.MethodGet, "/hang", nil)),
		w.inBackground(w.client, w.request(http.MethodGet, "/hang", nil)),
	}
	eventually(t, "two are under way", func() bool { return underWay() == 2 })
	w.object("stable=50 canary=50") // the count goes on in the next table
	w.commit()
	flags := make(chan string, 20)
	next := w.proxy.handler
	w.proxy.handler = chain([]func(http.Handler) http.Handler{func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r)
			flags <- recordOf(r).flags()
		})
	}}, next)
	codes := make(map[string]int)
	for range 10 {
		res, body := w.get("/")
		if res.StatusCode == http.StatusServiceUnavailable {
			if res.Header.Get("Retry-After") != "5" || !strings.Contains(body, "Service stable of HTTPScaledObject demo/app") {
				t.Errorf("refused with %v %q", res.Header, body)
			}
			body = "refused"
		}
		codes[body]++
	}
	if codes["refused"] != 5 || codes["canary"] != 5 {
		t.Errorf("answered %v, want 5 refused and 5 by the canary", codes)
	}
	limited := 0
	for range 10 {
		if <-flags == "limited" {
			limited++
		}
	}
	if limited != 5 {
		t.Errorf("%d of 10 have the flag limited, want 5", limited)
	}
	if n := value(t, w.proxy, "interceptor_requests_limited_total", "demo", "app", "stable"); n != 5 {
		t.Errorf("%v are counted as refused, want 5", n)
	}
	if l := w.proxy.limitUsed(); l.Used != 2 || l.Max != 2 {
		t.Errorf("used %v of %v, want 2 of 2", l.Used, l.Max)
	}

	now := time.Now()
	opened, resolved := w.proxy.limited.changes(now, 2)
	if len(opened) != 1 || len(resolved) != 0 || opened[0].UID != "1" || opened[0].Reason != OverRequestLimit ||
		!strings.Contains(opened[0].Message, "Service stable has had 2 requests") {
		t.Errorf("opened %+v, resolved %+v", opened, resolved)
	}
	release()
	for _, answer := range answers {
		if got := <-answer; got != "200  stable" {
			t.Errorf("a request under way is answered %q", got)
		}
	}
	eventually(t, "none is under way", func() bool { return w.proxy.limitUsed().Used == 0 })
	if opened, resolved := w.proxy.limited.changes(now.Add(limitedFor-1), 2); len(opened)+len(resolved) > 0 {
		t.Errorf("opened %+v, resolved %+v before a minute is over", opened, resolved)
	}
	if opened, resolved := w.proxy.limited.changes(now.Add(limitedFor), 2); len(opened) != 0 || len(resolved) != 1 {
		t.Errorf("opened %+v, resolved %+v after a minute", opened, resolved)
	}
	for range 2 {
		if res, body := w.get("/"); res.StatusCode != http.StatusOK {
			t.Errorf("afterwards answered %s %q", res.Status, body)
		}
	}
}

// Refusals that go on are one Problem, whatever the table.
func TestRefusalsOfTheLimitAreReportedOnce(t *testing.T) {
	var l limitedServices
	now := time.Now()
	var all []routes.Problem
	for i := range 5 {
		l.add(&routes.Route{UID: "1"}, "stable")
		opened, resolved := l.changes(now.Add(time.Duration(i)*limitedFor*2/3), 1)
		all = append(append(all, opened...), resolved...)
	}
	if len(all) != 1 {
		t.Errorf("told %+v, want one", all)
	}
}

// A Service that leaves its object and comes back has the same requests under way. Its
// series go when these are over.
func TestTheLimitOutlastsALeavingService(t *testing.T) {
	w := newWorld(t, func(s *Settings) { s.MaxUpstreamRequests = 1 })
	released := make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	t.Cleanup(release)
	w.service("stable", "", w.app(hanging("stable", released)))
	w.service("canary", "", w.app(hanging("canary", released)))
	w.object("stable=100")
	w.commit()
	hangs := w.inBackground(w.client, w.request(http.MethodGet, "/hang", nil))
	eventually(t, "one is under way", func() bool { return w.proxy.limitUsed().Used == 1 })
	leave := func() {
		t.Helper()
		w.object("canary=100")
		w.commit()
		if _, body := w.get("/"); body != "canary" {
			t.Errorf("answered %q, want the canary", body)
		}
	}
	leave()
	w.object("stable=100")
	w.commit()
	if res, _ := w.get("/"); res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("the Service that came back answers %s", res.Status)
	}
	leave()
	release()
	<-hangs
	metrics := w.proxy.registry.byName[types.NamespacedName{Namespace: "demo", Name: "app"}].metrics
	eventually(t, "the series of the Service that left are gone", func() bool {
		w.proxy.sweep()
		metrics.mu.Lock()
		defer metrics.mu.Unlock()
		return metrics.backends["stable"] == nil
	})
}

// An open tunnel counts until it is closed.
func TestTunnelsCountForTheLimit(t *testing.T) {
	w := newWorld(t, func(s *Settings) { s.MaxUpstreamRequests = 1 })
	w.service("stable", "", w.app(echoUpgraded("s", "websocket")))
	w.object("")
	w.commit()
	tunnel, _ := upgraded(t, w, "")
	c := dial(t, w.address)
	c.send(webSocketRequest)
	if res, body := c.answer(http.MethodGet); res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a second one is answered %s %q", res.Status, body)
	}
	_ = tunnel.conn.Close()
	eventually(t, "the tunnel counts no more", func() bool { return w.proxy.limitUsed().Used == 0 })
	upgraded(t, w, "")
}

// A second try, of Envoy or here, is not refused.
func TestSecondTriesAreNotLimited(t *testing.T) {
	w := newWorld(t, func(s *Settings) { s.MaxUpstreamRequests = 1 })
	released := make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	t.Cleanup(release)
	w.service("stable", "", w.app(hanging("stable", released)))
	w.service("canary", "", unused(t))
	w.object("stable=100 canary=0")
	w.commit()
	hangs := w.inBackground(w.client, w.request(http.MethodGet, "/hang", nil))
	eventually(t, "one is under way", func() bool { return w.proxy.limitUsed().Used == 1 })
	again := w.request(http.MethodGet, "/", nil)
	again.Header[routes.SecondTryHeader] = []string{"false"}
	if res, body := (&world{t: t, client: w.fromEnvoy(w.serveFallback(), "demo/app", false, "stable")}).do(again); body != "stable" {
		t.Errorf("the second try of Envoy is answered %s %q", res.Status, body)
	}
	// The canary cannot be connected to: its requests go to stable.
	w.object("stable=1 canary=100")
	w.commit()
	served := 0
	for range 20 {
		if _, body := w.get("/"); body == "stable" {
			served++
		}
	}
	if served < 18 {
		t.Errorf("%d of 20 requests for the canary are answered, want all", served)
	}
	release()
	<-hangs
}
