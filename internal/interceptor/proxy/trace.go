package proxy

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// Attributes of spans that OpenTelemetry's conventions for HTTP do not have.
const (
	objectAttribute     = attribute.Key("interceptor.object")  // namespace/name of the HTTPScaledObject
	serviceAttribute    = attribute.Key("interceptor.service") // that got the request
	heldAttribute       = attribute.Key("interceptor.held")
	handedOverAttribute = attribute.Key("interceptor.handed_over")
)

// trace makes a span of each request, of kind server, and one of each try, of kind client,
// whose context the application gets. They have the names and attributes of
// OpenTelemetry's conventions for HTTP.
func (p *Proxy) trace(next http.Handler) http.Handler {
	if p.settings.Tracer == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := recordOf(r)
		rec.spans = p.startSpans(r)
		defer rec.spans.end(rec)
		next.ServeHTTP(w, r)
	})
}

// spans are those of one request. A nil spans is for requests that are not traced.
type spans struct {
	tracer trace.Tracer
	//nolint:containedctx // of the server span: the parent of the tries' contexts
	ctx     context.Context
	request trace.Span
	try     trace.Span // the latest, nil before the first
	tries   int
}

func (p *Proxy) startSpans(r *http.Request) *spans {
	s := &spans{tracer: p.settings.Tracer}
	parent := propagation.TraceContext{}.Extract(r.Context(), receivedHeader(r.Header))
	s.ctx, s.request = s.tracer.Start(parent, spanName(r.Method), trace.WithSpanKind(trace.SpanKindServer))
	if !s.request.IsRecording() {
		return s
	}
	s.request.SetAttributes(methodAttributes(r.Method)...)
	s.request.SetAttributes(serverAttributes(r.Host)...)
	peer, _, _ := net.SplitHostPort(r.RemoteAddr)
	s.request.SetAttributes(
		semconv.URLPath(spanText(routes.PathOf(r.RequestURI))), semconv.URLScheme(schemeOf(r)),
		semconv.NetworkProtocolVersion(protocolVersion(r)), semconv.NetworkPeerAddress(peer),
		semconv.UserAgentOriginal(spanText(r.UserAgent())), semconv.HTTPRequestHeader("x-request-id", spanText(recordOf(r).requestID[0])),
	)
	return s
}

// beginTry begins the span of a try, and puts its context into the header to send.
func (s *spans) beginTry(rec *record, out *http.Request) {
	if s == nil {
		return
	}
	var ctx context.Context
	ctx, s.try = s.tracer.Start(s.ctx, spanName(out.Method), trace.WithSpanKind(trace.SpanKindClient))
	if s.try.SpanContext().IsValid() {
		delete(out.Header, "Tracestate") // it belongs to a traceparent that is replaced
		propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(out.Header))
	}
	if s.try.IsRecording() {
		s.try.SetAttributes(methodAttributes(out.Method)...)
		s.try.SetAttributes(serverAttributes(rec.endpoint)...)
		s.try.SetAttributes(serviceAttribute.String(rec.service()), semconv.URLFull("http://"+rec.endpoint+spanText(routes.PathOf(rec.request.RequestURI))))
		if s.tries > 0 {
			s.try.SetAttributes(semconv.HTTPRequestResendCount(s.tries))
		}
	}
	s.tries++
}

// tried says what became of the latest try. The span of one that was answered ends with
// the request.
func (s *spans) tried(what tryOutcome, res *http.Response) {
	if s == nil {
		return
	}
	if what == tryAnswered {
		s.try.SetAttributes(semconv.HTTPResponseStatusCode(res.StatusCode))
		if res.StatusCode >= http.StatusBadRequest {
			failSpan(s.try, strconv.Itoa(res.StatusCode))
		}
		return
	}
	failSpan(s.try, string(what))
	s.try.End()
}

// end ends the spans of a request that is over.
func (s *spans) end(rec *record) {
	if s.try != nil {
		if rec.cutBy != "" {
			failSpan(s.try, "cut_short_by_"+rec.cutBy)
		}
		s.try.End() // has no effect on one that has ended
	}
	defer s.request.End()
	if !s.request.IsRecording() {
		return
	}
	if rec.served != nil {
		s.request.SetAttributes(objectAttribute.String(rec.object().String()))
	}
	if rec.backend != nil {
		s.request.SetAttributes(serviceAttribute.String(rec.service()))
	}
	if rec.held {
		s.request.SetAttributes(heldAttribute.Bool(true))
	}
	if rec.handover != nil {
		s.request.SetAttributes(handedOverAttribute.Bool(true))
	}
	code := rec.finalCode()
	if code == clientClosed {
		failSpan(s.request, string(tryAbandoned))
		return
	}
	s.request.SetAttributes(semconv.HTTPResponseStatusCode(code))
	switch {
	case code >= http.StatusInternalServerError:
		failSpan(s.request, strconv.Itoa(code))
	case rec.cutBy != "":
		failSpan(s.request, "cut_short_by_"+rec.cutBy)
	}
}

func failSpan(span trace.Span, errorType string) {
	span.SetAttributes(semconv.ErrorTypeKey.String(errorType))
	span.SetStatus(codes.Error, "")
}

// spanText bounds what a client can put into a span, in bytes, and copies it: spans wait to
// be exported, and must not keep whole headers in memory.
func spanText(text string) string { return strings.Clone(upTo(1024, text)) }

// methods are those that spans name; others are a client's invention.
var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete,
	http.MethodConnect, http.MethodOptions, http.MethodTrace, http.MethodPatch,
}

func spanName(method string) string {
	if slices.Contains(methods, method) {
		return method
	}
	return "HTTP"
}

func methodAttributes(method string) []attribute.KeyValue {
	if slices.Contains(methods, method) {
		return []attribute.KeyValue{semconv.HTTPRequestMethodKey.String(method)}
	}
	return []attribute.KeyValue{semconv.HTTPRequestMethodOther, semconv.HTTPRequestMethodOriginal(spanText(method))}
}

// serverAttributes names a host, with a port or without.
func serverAttributes(hostPort string) []attribute.KeyValue {
	hostPort = spanText(hostPort)
	if at, err := netip.ParseAddrPort(hostPort); err == nil {
		return []attribute.KeyValue{semconv.ServerAddress(at.Addr().String()), semconv.ServerPort(int(at.Port()))}
	}
	host, port, err := net.SplitHostPort(hostPort)
	n, notNumber := strconv.ParseUint(port, 10, 16)
	if err != nil || notNumber != nil {
		return []attribute.KeyValue{semconv.ServerAddress(cmp.Or(host, hostPort))}
	}
	return []attribute.KeyValue{semconv.ServerAddress(host), semconv.ServerPort(int(n))}
}

func schemeOf(r *http.Request) string {
	if overTLS(r) {
		return "https"
	}
	return "http"
}

// protocolVersion is 1.1 or 2, say.
func protocolVersion(r *http.Request) string {
	return strings.TrimSuffix(strings.TrimPrefix(r.Proto, "HTTP/"), ".0")
}

// receivedHeader is a header that a trace's context is read from. The values of one that
// was sent in several lines belong together. A tracestate of more than 2 KiB is not passed
// on: spans wait with it, and 512 bytes are what it may have in any case.
type receivedHeader http.Header

// Get is part of propagation.TextMapCarrier.
func (h receivedHeader) Get(name string) string {
	if value := strings.Join(http.Header(h).Values(name), ","); len(value) <= 2<<10 {
		return value
	}
	return ""
}

// Set is part of propagation.TextMapCarrier.
func (h receivedHeader) Set(name, value string) { http.Header(h).Set(name, value) }

// Keys is part of propagation.TextMapCarrier.
func (h receivedHeader) Keys() []string { return propagation.HeaderCarrier(h).Keys() }
