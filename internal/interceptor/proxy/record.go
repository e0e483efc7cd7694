package proxy

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/loads"
)

// record is what the handlers know of one request. Each fills its part; a handler reads
// the parts of others after it has called the next handler. Only the goroutine that
// serves the request uses it. It is also the context of its request, and has that
// request and the state of forward: all of these are one allocation.
type record struct {
	//nolint:containedctx // a context that derives from this one
	context.Context

	// begun is when the request's header had been read.
	begun time.Time
	// requestID has the x-request-id, which is not empty.
	requestID [1]string

	// handover is what the connection of a kedify-proxy says of its requests; nil for a
	// request that a client sent here.
	handover *handover
	// secondTry tells that Envoy has tried the request before, and tooLate that this try
	// ended by Envoy's timeout for the response header.
	secondTry, tooLate bool

	// served is the state of the HTTPScaledObject that the request belongs to, nil for
	// none.
	served *served
	// load is what the request is under way in, as scalers are told.
	load *loads.Counters
	// backend is the Service that the request is for: the one of the latest try, if
	// there was one; nil before one is chosen.
	backend *backend
	// second is the Service that gets the request if backend cannot be connected to;
	// nil for none.
	second *backend
	// endpoint is the host:port of the latest try, "" before the first.
	endpoint string

	// held tells that the request waited for an endpoint, and failedOver that the
	// failover gets it after that.
	held, failedOver bool
	// unsent tells that no endpoint could be connected to, and that hold has the request
	// sent again.
	unsent bool
	// lastTry is when that is done for the last time; zero for a request that was not tried
	// in vain.
	lastTry time.Time
	// repeated tells that the request is sent for the second time, after its connection was
	// closed.
	repeated bool
	// triedAgain tells that the request was sent, or was to be sent, to an endpoint more
	// than once.
	triedAgain bool
	// limited tells that the request was refused because its Service has as many under
	// way as there may be.
	limited bool
	// noRoom tells that the request was refused because there was no room for it to wait.
	noRoom bool
	// upgraded tells that the client's connection became a tunnel, such as a WebSocket.
	upgraded bool
	// cutBy tells who ended an answer that had begun before it was whole, such as
	// byApplication; "" for none.
	cutBy string

	// code is the status code of the answer: 0 before its header is sent, and
	// clientClosed (499) if the client left before that.
	code int
	// headerAt is when the header of the answer was sent, zero before.
	headerAt time.Time
	// bytes of the answer's body that were written, without those of a tunnel.
	bytes int64

	spans *spans // nil for a request that is not traced

	request  http.Request // with the record as its context
	writer   recordingWriter
	exchange exchange
}

// object returns the name of the HTTPScaledObject that the request belongs to, the zero
// name for none.
func (rec *record) object() types.NamespacedName {
	if rec.served == nil {
		return types.NamespacedName{}
	}
	return rec.served.route.Name
}

// service returns the name of the Service that the request is for, "" for none.
func (rec *record) service() string {
	if rec.backend == nil {
		return ""
	}
	return rec.backend.service
}

// finalCode returns the code of the answer for handlers that run after it. A request
// that has none ended with a panic, which recover answers with 500.
func (rec *record) finalCode() int {
	if rec.code == 0 {
		return http.StatusInternalServerError
	}
	return rec.code
}

type recordKey struct{}

// Value is part of context.Context.
func (rec *record) Value(key any) any {
	if key == (recordKey{}) {
		return rec
	}
	return rec.Context.Value(key)
}

// withRecord gives a request a record, and returns the writer that fills it. The trace of
// the tries is in the request's context from the start, so that forward needs no other.
func withRecord(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request) {
	rec := &record{Context: r.Context(), begun: time.Now()}
	rec.writer = recordingWriter{ResponseWriter: w, record: rec}
	rec.request = *r.WithContext(httptrace.WithClientTrace(rec, &rec.exchange.trace))
	return &rec.writer, &rec.request
}

// recordOf returns the record of a request that ServeHTTP has passed on.
func recordOf(r *http.Request) *record { return r.Context().Value(recordKey{}).(*record) }

// recordingWriter notes what is answered.
type recordingWriter struct {
	http.ResponseWriter
	record *record
}

// WriteHeader is part of http.ResponseWriter. Informational answers are not recorded.
func (w *recordingWriter) WriteHeader(code int) {
	if code >= http.StatusOK && w.record.code == 0 {
		w.record.code, w.record.headerAt = code, time.Now()
	}
	w.ResponseWriter.WriteHeader(code)
}

// Write is part of http.ResponseWriter.
func (w *recordingWriter) Write(data []byte) (int, error) {
	if w.record.code == 0 {
		w.WriteHeader(http.StatusOK)
	}
	n, err := w.ResponseWriter.Write(data)
	w.record.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController flush and hijack the connection.
func (w *recordingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
