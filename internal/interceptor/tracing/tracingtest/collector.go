// Package tracingtest is a collector of spans for tests.
package tracingtest

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// patience is how long spans may take to come.
const patience = time.Minute

// Span is a span as the collector got it.
type Span struct {
	Kind, Name string
	// Trace, ID and Parent are in hexadecimal; Parent is empty for a root.
	Trace, ID, Parent string
	Failed            bool
	// Attributes are those of the span, and Resource those of what made it, as text.
	Attributes, Resource map[string]string
}

// Collector takes spans by OTLP, over HTTP in protobuf or over gRPC.
type Collector struct {
	// URL is for OTEL_EXPORTER_OTLP_ENDPOINT.
	URL string

	mu    sync.Mutex
	spans []Span
}

// NewCollector starts a Collector over HTTP, which ends with the test.
func NewCollector(t testing.TB) *Collector {
	t.Helper()
	c := new(Collector)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		request := new(collectorv1.ExportTraceServiceRequest)
		if err == nil {
			err = proto.Unmarshal(body, request)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
			http.Error(w, fmt.Sprint(err), http.StatusBadRequest)
			return
		}
		c.add(request)
	}))
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

// NewGRPCCollector starts a Collector over gRPC, which ends with the test.
func NewGRPCCollector(t testing.TB) *Collector {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &Collector{URL: "http://" + l.Addr().String()}
	server := grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(server, traceService{collector: c})
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return c
}

type traceService struct {
	collectorv1.UnimplementedTraceServiceServer
	collector *Collector
}

// Export is part of collectorv1.TraceServiceServer.
func (s traceService) Export(_ context.Context, request *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	s.collector.add(request)
	return new(collectorv1.ExportTraceServiceResponse), nil
}

func (c *Collector) add(request *collectorv1.ExportTraceServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range request.GetResourceSpans() {
		for _, scope := range of.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, Span{
					Kind: kinds[s.GetKind()], Name: s.GetName(),
					Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
					Failed:     s.GetStatus().GetCode() == tracev1.Status_STATUS_CODE_ERROR,
					Attributes: texts(s.GetAttributes()), Resource: texts(of.GetResource().GetAttributes()),
				})
			}
		}
	}
}

var kinds = map[tracev1.Span_SpanKind]string{tracev1.Span_SPAN_KIND_SERVER: "server", tracev1.Span_SPAN_KIND_CLIENT: "client"}

func texts(attributes []*commonv1.KeyValue) map[string]string {
	text := make(map[string]string)
	for _, a := range attributes {
		value := a.GetValue()
		if list := value.GetArrayValue().GetValues(); len(list) == 1 {
			value = list[0]
		}
		switch v := value.GetValue().(type) {
		case *commonv1.AnyValue_StringValue:
			text[a.GetKey()] = v.StringValue
		case *commonv1.AnyValue_IntValue:
			text[a.GetKey()] = fmt.Sprint(v.IntValue)
		case *commonv1.AnyValue_BoolValue:
			text[a.GetKey()] = fmt.Sprint(v.BoolValue)
		}
	}
	return text
}

// Wait returns the spans once there are n: those of a request before its tries, in the
// order in which they ended. The next call returns later ones alone.
func (c *Collector) Wait(t testing.TB, n int) []Span {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		c.mu.Lock()
		if len(c.spans) >= n {
			spans := c.spans
			c.spans = nil
			c.mu.Unlock()
			slices.SortStableFunc(spans, func(a, b Span) int { return -strings.Compare(a.Kind, b.Kind) })
			return spans
		}
		got := len(c.spans)
		c.mu.Unlock()
		if time.Now().After(end) {
			t.Fatalf("%d spans after %v, want %d", got, patience, n)
		}
	}
}
