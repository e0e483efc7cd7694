package main

import (
	"net/http"
	"syscall"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/tracing/tracingtest"
)

// An interceptor with an OTLP endpoint exports the spans of its last requests before it
// ends. A request that it answers itself has one, too.
func TestSpansAreExportedAtTheEnd(t *testing.T) {
	for protocol, collector := range map[string]*tracingtest.Collector{
		"http/protobuf": tracingtest.NewCollector(t), "grpc": tracingtest.NewGRPCCollector(t),
	} {
		t.Run(protocol, func(t *testing.T) { testExport(t, protocol, collector) })
	}
}

func testExport(t *testing.T, protocol string, collector *tracingtest.Collector) {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "600000") // only the end exports
	t.Setenv("OTEL_SERVICE_NAME", "edge")
	cmd, of, out := started(t, "--drain-delay=0s")
	if got := code(of["proxy-port"], "/"); got != http.StatusServiceUnavailable {
		t.Fatalf("answered %d, want 503\n%s", got, out)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("SIGTERM: %v, want exit code 0\n%s", err, out)
	}
	span := collector.Wait(t, 1)[0]
	if span.Attributes["http.response.status_code"] != "503" || !span.Failed || span.Resource["service.name"] != "edge" {
		t.Errorf("span %+v, want one of edge that failed with 503", span)
	}
}
