package proxy

import (
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/tracing"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/tracing/tracingtest"
)

const (
	traceID     = "0af7651916cd43dd8448eb211c80319c"
	spanID      = "b7ad6b7169203331"
	sampled     = "00-" + traceID + "-" + spanID + "-01"
	unsampled   = "00-" + traceID + "-" + spanID + "-00"
	traceparent = "Traceparent"
)

// tracedWorld exports spans to a collector as soon as they end.
func tracedWorld(t *testing.T) (*world, *tracingtest.Collector) {
	t.Helper()
	collector := tracingtest.NewCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	return worldWithTracing(t), collector
}

func worldWithTracing(t *testing.T) *world {
	t.Helper()
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	traces := tracing.New(t.Context(), os.LookupEnv, "v1", slog.New(slog.DiscardHandler))
	t.Cleanup(traces.Shutdown)
	return newWorld(t, func(s *Settings) { s.Tracer = traces.Tracer() })
}

// headers is an application that keeps the header of the latest request.
type headers struct{ latest atomic.Pointer[http.Header] }

func (h *headers) serve(w http.ResponseWriter, r *http.Request) {
	h.latest.Store(&r.Header)
	_, _ = io.WriteString(w, "hello")
}

// sent returns what the application got, and the id of the span that is its parent.
func (h *headers) sent() (header http.Header, parent string) {
	header = *h.latest.Load()
	if parts := strings.Split(header.Get(traceparent), "-"); len(parts) == 4 {
		parent = parts[2]
	}
	return header, parent
}

// A request has a span whose parent is its client's, and a try one that is the parent of
// the application's. Both have the attributes of OpenTelemetry's conventions for HTTP.
func TestSpansOfARequest(t *testing.T) {
	w, collector := tracedWorld(t)
	app := new(headers)
	address := w.app(app.serve)
	w.service("stable", "", address)
	w.object("")
	w.commit()
	r := w.request(http.MethodGet, "/cart?secret=1", nil)
	r.Header.Set(traceparent, sampled)
	r.Header["Tracestate"] = []string{"a=1", "b=2"}
	r.Header.Set("User-Agent", "me")
	r.Header.Set("X-Request-Id", "mine")
	w.do(r)
	spans := collector.Wait(t, 2)
	request, try := spans[0], spans[1]
	header, parent := app.sent()
	if request.Trace != traceID || request.Parent != spanID || try.Trace != traceID || try.Parent != request.ID || parent != try.ID {
		t.Errorf("the client's span %s of trace %s, request %+v, try %+v, the application has the parent %s", spanID, traceID, request, try, parent)
	}
	if got := header.Values("Tracestate"); len(got) != 1 || got[0] != "a=1,b=2" {
		t.Errorf("the application has tracestate %q, want a=1,b=2", got)
	}
	host, port, _ := strings.Cut(address, ":")
	want := []tracingtest.Span{
		{Kind: "server", Name: "GET", Attributes: map[string]string{
			"http.request.method": "GET", "url.path": "/cart", "url.scheme": "http", "server.address": "app.test",
			"network.protocol.version": "1.1", "network.peer.address": "127.0.0.1", "user_agent.original": "me", "http.request.header.x-request-id": "mine",
			"http.response.status_code": "200", "interceptor.object": "demo/app", "interceptor.service": "stable",
		}},
		{Kind: "client", Name: "GET", Attributes: map[string]string{
			"http.request.method": "GET", "url.full": "http://" + address + "/cart", "server.address": host, "server.port": port,
			"http.response.status_code": "200", "interceptor.service": "stable",
		}},
	}
	ignore := cmp.FilterPath(func(p cmp.Path) bool {
		switch p.Last().String() {
		case ".Trace", ".ID", ".Parent", ".Resource":
			return true
		}
		return false
	}, cmp.Ignore())
	if diff := cmp.Diff(want, spans, ignore); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	if got := request.Resource["service.name"] + " " + request.Resource["service.version"]; got != "keda-add-ons-http-interceptor v1" {
		t.Errorf("the spans are of %s", got)
	}
}

// Sampling follows the client's span: there are spans only if that is sampled. Requests
// without one are sampled.
func TestSamplingFollowsTheParent(t *testing.T) {
	w, collector := tracedWorld(t)
	app := new(headers)
	w.service("stable", "", w.app(app.serve))
	w.object("")
	w.commit()
	r := w.request(http.MethodGet, "/", nil)
	r.Header.Set(traceparent, unsampled)
	w.do(r)
	if header, _ := app.sent(); !strings.HasPrefix(header.Get(traceparent), "00-"+traceID+"-") || !strings.HasSuffix(header.Get(traceparent), "-00") {
		t.Errorf("the application got traceparent %q, want one of the same trace that is not sampled", header.Get(traceparent))
	}
	w.get("/") // on the same connection, so that the first one is over
	spans := collector.Wait(t, 2)
	_, parent := app.sent()
	if len(spans) != 2 || spans[0].Parent != "" || spans[0].Trace == traceID || spans[1].Parent != spans[0].ID || spans[1].ID != parent {
		t.Errorf("spans %+v, want those of the second request, as a root", spans)
	}
	r = w.request(http.MethodGet, "/", nil)
	r.Header.Set(traceparent, "00-"+traceID+"-nonsense-01")
	r.Header.Set("Tracestate", "a=1")
	w.do(r)
	spans = collector.Wait(t, 2)
	if header, parent := app.sent(); spans[0].Parent != "" || spans[1].ID != parent || header.Get("Tracestate") != "" {
		t.Errorf("a wrong traceparent: spans %+v, and the application got %v; want a root, without the tracestate", spans, header)
	}
}

// Each try has a span of its own, which says why it failed.
func TestEachTryHasASpan(t *testing.T) {
	w, collector := tracedWorld(t)
	_, closes := w.silent(1)
	dead := unused(t)
	w.object("stable=50 canary=50", waitsFor("500ms"))
	w.service("stable", "", dead)
	w.service("canary", "", dead)
	w.commit()
	w.get("/")
	spans := collector.Wait(t, 5)
	for i, want := range []map[string]string{
		{"http.response.status_code": "502", "error.type": "502", "interceptor.held": "true"},
		{"error.type": "connect_failure", "http.request.resend_count": ""},
		{"error.type": "connect_failure", "http.request.resend_count": "1"},
		{"error.type": "connect_failure", "http.request.resend_count": "2"}, // after a wait
		{"error.type": "connect_failure", "http.request.resend_count": "3"},
	} {
		expectSpan(t, spans[i], want)
	}
	if spans[1].Attributes["interceptor.service"] == spans[2].Attributes["interceptor.service"] {
		t.Errorf("both tries are at %s", spans[1].Attributes["interceptor.service"])
	}

	w.service("stable", "", closes)
	w.object("")
	w.commit()
	w.get("/")
	spans = collector.Wait(t, 3)
	expectSpan(t, spans[1], map[string]string{"error.type": "unanswered"})
	if again := spans[2]; again.Failed || again.Attributes["http.response.status_code"] != "200" || again.Parent != spans[0].ID || spans[1].Parent != spans[0].ID {
		t.Errorf("after a connection that was closed: %+v", spans)
	}
}

func expectSpan(t *testing.T, span tracingtest.Span, want map[string]string) {
	t.Helper()
	if !span.Failed {
		t.Errorf("%s %s is not marked as failed", span.Kind, span.Name)
	}
	for key, value := range want {
		if got := span.Attributes[key]; got != value {
			t.Errorf("%s %s: %s is %q, want %q", span.Kind, span.Name, key, got, value)
		}
	}
}

// An answer that is cut short, and one that an application refuses, are told apart.
func TestSpansOfFailedAnswers(t *testing.T) {
	w, collector := tracedWorld(t)
	w.service("stable", "", w.app(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/short" {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "hello")
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	w.object("")
	w.commit()
	if res, err := w.client.Do(w.request(http.MethodGet, "/short", nil)); err == nil {
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
	spans := collector.Wait(t, 2)
	expectSpan(t, spans[0], map[string]string{"error.type": "cut_short_by_application", "http.response.status_code": "200"})
	expectSpan(t, spans[1], map[string]string{"error.type": "cut_short_by_application"})
	w.do(w.request("PURGE", "/", nil))
	spans = collector.Wait(t, 2)
	if spans[0].Failed || spans[0].Name != "HTTP" || spans[0].Attributes["http.request.method_original"] != "PURGE" {
		t.Errorf("a request answered 404 has the span %+v; a 4xx is no failure of a server", spans[0])
	}
	expectSpan(t, spans[1], map[string]string{"error.type": "404"})
}

// The spans of a WebSocket are exported when it ends, and not before.
func TestSpansOfATunnel(t *testing.T) {
	w, collector := tracedWorld(t)
	app := w.app(echoUpgraded("s", "websocket"))
	w.service("stable", "", app)
	w.object("")
	w.commit()
	c := dial(t, w.address)
	c.send(webSocketRequest)
	c.header(http.MethodGet)
	w.get("/") // is exported meanwhile
	for _, span := range collector.Wait(t, 2) {
		if span.Attributes["http.response.status_code"] == "101" {
			t.Errorf("exported before the tunnel ended: %+v", span)
		}
	}
	_ = c.conn.Close()
	for _, span := range collector.Wait(t, 2) {
		if span.Attributes["http.response.status_code"] != "101" || span.Failed {
			t.Errorf("%+v; want the spans of a tunnel that did not fail", span)
		}
	}
}

// What a client puts into a span is bounded: spans wait to be exported.
func TestSpansHaveABound(t *testing.T) {
	w, collector := tracedWorld(t)
	app := new(headers)
	w.service("stable", "", w.app(app.serve))
	w.object("")
	w.commit()
	long := strings.Repeat("a", 10_000)
	r := w.request(http.MethodGet, "/"+long, nil)
	r.Header.Set(traceparent, sampled)
	for _, name := range []string{"Tracestate", "User-Agent", "X-Request-Id"} {
		r.Header.Set(name, "a="+long)
	}
	w.do(r)
	for _, span := range collector.Wait(t, 2) {
		for key, text := range span.Attributes {
			if len(text) > 1100 {
				t.Errorf("%s %s has %d bytes", span.Kind, key, len(text))
			}
		}
	}
	if header, _ := app.sent(); header.Get("Tracestate") != "" || header.Get("User-Agent") != "a="+long {
		t.Error("the application got the tracestate, or not the other headers")
	}
}

type handlerOfTests struct{ http.Handler }

// Without a setting there is no handler for it, and an application gets what the client
// sent.
func TestTracingIsOffByDefault(t *testing.T) {
	w := newWorld(t)
	next := new(handlerOfTests)
	if got := w.proxy.trace(next); got != next {
		t.Errorf("requests pass a handler: %T", got)
	}
	var none *spans
	var rec record
	var out http.Request
	if n := testing.AllocsPerRun(100, func() { none.beginTry(&rec, &out); none.tried(tryAnswered, nil) }); n != 0 {
		t.Errorf("%v allocations for a try", n)
	}
}

// A collector that hangs, or is away, costs requests nothing.
func TestACollectorThatHangs(t *testing.T) {
	release := make(chan struct{})
	var exports atomic.Int64
	hangs := newWorld(t).appServer(func(http.ResponseWriter, *http.Request) { exports.Add(1); <-release }, false)
	t.Cleanup(func() { close(release) })
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", hangs.URL)
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "8")
	w := worldWithTracing(t)
	w.service("stable", "", w.app(named("app")))
	w.object("")
	w.commit()
	for i := range 1000 {
		if res, body := w.get("/"); body != "app" {
			t.Fatalf("request %d: %s %q", i, res.Status, body)
		}
	}
	eventually(t, "spans are exported", func() bool { return exports.Load() > 0 })
	if n := exports.Load(); n != 1 {
		t.Errorf("%d exports at a time, want 1", n)
	}
}
