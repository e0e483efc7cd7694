// Package tracing sets up OpenTelemetry's official SDK from its standard environment
// variables: where spans are exported to, and which requests have any.
package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
)

const (
	// serviceName is the service of the spans unless OTEL_SERVICE_NAME says otherwise.
	serviceName = "keda-add-ons-http-interceptor"
	scope       = "github.com/kedify/argo-rollouts-plugin/internal/interceptor"
	// flushTime is how long the last export may take.
	flushTime = 2 * time.Second
)

// Tracing exports spans in the background. It drops spans when the collector takes none:
// requests never wait for it. A nil Tracing is one that is off.
type Tracing struct {
	provider *sdktrace.TracerProvider
	log      *slog.Logger
}

// New returns what the environment asks for, nil if that is nothing. lookup is
// os.LookupEnv; the SDK itself reads the process's environment. A wrong value is logged
// and keeps tracing off: requests matter more. No connection is made before there are
// spans.
func New(ctx context.Context, lookup func(string) (string, bool), version string, log *slog.Logger) *Tracing {
	env := environment(func(name string) string { value, _ := lookup(name); return value })
	protocol, err := env.protocol()
	if err != nil {
		log.Error("tracing is off, because of a wrong setting", "error", err)
		return nil
	}
	if protocol == "" {
		return nil
	}
	otel.SetLogger(logr.FromSlogHandler(log.With("from", "opentelemetry").Handler()))
	otel.SetErrorHandler(newErrorLog(log))
	exporter, err := newExporter(ctx, protocol)
	if err != nil {
		log.Error("tracing is off, as spans cannot be exported", "error", err)
		return nil
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName(serviceName), semconv.ServiceVersion(version)),
		resource.WithHost(), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		log.Warn("a part of what describes this interceptor in traces is missing", "error", err)
	}
	log.Info("tracing is on", "protocol", protocol, "endpoint", env.endpoint())
	return &Tracing{sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about)), log}
}

func newExporter(ctx context.Context, protocol string) (sdktrace.SpanExporter, error) {
	if protocol == grpc {
		return otlptracegrpc.New(ctx)
	}
	return otlptracehttp.New(ctx)
}

// Tracer makes spans; nil if tracing is off.
func (t *Tracing) Tracer() trace.Tracer {
	if t == nil {
		return nil
	}
	return t.provider.Tracer(scope)
}

// Shutdown exports the spans that are left, within two seconds.
func (t *Tracing) Shutdown() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.log.Warn("the last spans were not exported", "error", fmt.Sprint(err))
	}
}
