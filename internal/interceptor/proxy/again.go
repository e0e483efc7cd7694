package proxy

import (
	"io"
	"net/http"
	"strings"
)

// repeat tells whether a request that was sent, and got no answer, is sent once
// more; it takes the endpoint for that: another one of the backend, or the same
// where there is no other. It is not another backend, unless that endpoint cannot be
// connected to: what a canary breaks must not look as if it were answered.
func (x *exchange) repeat(hasBody bool) bool {
	if x.answerBegan.Load() || x.bodyBroken() {
		return false
	}
	x.at.metrics.unanswered.Inc()
	if x.repeated || x.secondTry || hasBody || !safeToRepeat(x.in.Method) {
		return false
	}
	x.repeated = true
	x.occupy(x.at, x.to)
	return true
}

// bodyBroken tells whether the client did not send the body that it said it would: the
// transport gives the connection up then, whatever the application does.
func (x *exchange) bodyBroken() bool { return x.body != nil && x.body.broken.Load() }

func safeToRepeat(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// answerBegins is told of the first byte of an answer, by another goroutine.
func (x *exchange) answerBegins() { x.answerBegan.Store(true) }

// sameAgain returns the index of the Service that Envoy tried before, -1 where it
// did not, or where that Service has no share now.
func (x *exchange) sameAgain(s *served) int {
	if x.service == "" {
		return -1
	}
	for i, service := range s.services {
		if service == x.service && s.chooser.hasShare(i) {
			return i
		}
	}
	return -1
}

// forbidReplay keeps Go's transport for HTTP/1.1 from sending a request again by
// itself when a kept connection turns out to be closed after the request was sent:
// it does so as often as it finds such connections, when the method is one of these
// and there is no body, or a header says that the request is idempotent.
func forbidReplay(out *http.Request, hasBody bool) {
	switch out.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		// With Expect the transport would wait for leave to send the body.
		if !hasBody && out.Header["Expect"] == nil {
			out.Body, out.TransferEncoding = emptyBody{}, identity
		}
	}
	// On the way, names of headers have no case.
	for _, name := range [...]string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values := out.Header[name]; values != nil {
			delete(out.Header, name)
			out.Header[strings.ToLower(name)] = values
		}
	}
}

// identity has a body sent as it is: an empty one then leaves no trace, neither in
// the header nor behind it.
var identity = []string{"identity"}

// emptyBody is a body that the transport does not know to be empty.
type emptyBody struct{}

// Read is part of io.ReadCloser.
func (emptyBody) Read([]byte) (int, error) { return 0, io.EOF }

// WriteTo is part of io.WriterTo, which needs no buffer.
func (emptyBody) WriteTo(io.Writer) (int64, error) { return 0, nil }

// Close is part of io.ReadCloser.
func (emptyBody) Close() error { return nil }
