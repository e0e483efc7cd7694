package envoy

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/proxy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/tracing"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/tracing/tracingtest"
)

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	spanID  = "b7ad6b7169203331"
)

// traced asks for app.example.com as a client that has a sampled trace.
func traced(t *testing.T, address string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, "http://"+address+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "app.example.com"
	r.Header.Set("Traceparent", "00-"+traceID+"-"+spanID+"-01")
	r.Header.Set("Tracestate", "vendor=opaque,other=1")
	r.Header.Set("Baggage", "user=me")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("answered %s", res.Status)
	}
}

// appWithHeader is an application that keeps the trace's headers of the latest request.
func appWithHeader(t *testing.T) (netip.AddrPort, *atomic.Pointer[http.Header]) {
	latest := new(atomic.Pointer[http.Header])
	return serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got := make(http.Header)
		for _, name := range []string{"Traceparent", "Tracestate", "Baggage"} {
			if values, is := r.Header[name]; is {
				got[name] = values
			}
		}
		latest.Store(&got)
	})), latest
}

// A client's trace reaches the application unchanged: through kedify-proxy, and through
// the interceptor without tracing.
func TestTheContextOfATraceIsPassedOn(t *testing.T) {
	w := newWorld(t)
	address, got := appWithHeader(t)
	w.service("app", routes.HTTP1)
	w.object("app", "app", "", nil)
	empty := w.table()
	w.service("app", routes.HTTP1, address)
	table := w.table()
	for name, proxy := range map[string]string{
		"envoy":       startEnvoy(t, static(t, newTranslator(t, Options{}), table, nil)),
		"embedded":    embedded(t, table),
		"handed over": handingOver(t, empty, table),
	} {
		got.Store(nil)
		traced(t, proxy)
		want := &http.Header{"Traceparent": {"00-" + traceID + "-" + spanID + "-01"}, "Tracestate": {"vendor=opaque,other=1"}, "Baggage": {"user=me"}}
		if diff := cmp.Diff(want, got.Load()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// The spans of a request that a kedify-proxy hands over belong to its client's trace.
func TestSpansOfARequestThatEnvoyHandsOver(t *testing.T) {
	collector := tracingtest.NewCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	traces := tracing.New(t.Context(), os.LookupEnv, "v1", slog.New(slog.DiscardHandler))
	t.Cleanup(traces.Shutdown)
	w := newWorld(t)
	address, got := appWithHeader(t)
	w.service("app", routes.HTTP1)
	w.object("app", "app", "", nil)
	empty := w.table()
	w.service("app", routes.HTTP1, address)
	settings := proxy.DefaultSettings()
	settings.Tracer = traces.Tracer()
	fallback := netip.MustParseAddrPort(listen(t, settings, w.table(), func(s *proxy.Server, l net.Listener) error { return s.ServeFallback(l, proxy.FallbackPeers{}) }))
	traced(t, startEnvoy(t, static(t, newTranslator(t, Options{}), empty, []netip.AddrPort{fallback})))
	spans := collector.Wait(t, 2)
	request, try := spans[0], spans[1]
	if request.Trace != traceID || request.Parent != spanID || request.Attributes["interceptor.handed_over"] != "true" || try.Parent != request.ID {
		t.Errorf("spans %+v, want them to belong to the client's span %s", spans, spanID)
	}
	if header := *got.Load(); !strings.Contains(header.Get("Traceparent"), try.ID) || header.Get("Tracestate") != "vendor=opaque,other=1" {
		t.Errorf("the application got %v, want the try %s as the parent", header, try.ID)
	}
}
