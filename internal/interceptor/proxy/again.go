package proxy

import (
	"io"
	"net/http"
	"strings"
)

// repeat tells whether a request that was sent and got no answer is sent once more.
// If so, it takes the endpoint for that: another one of the same backend, or the same
// where there is no other. Another backend gets the request only if that endpoint
// cannot be connected to: the errors of a canary must not be hidden by others' answers.
func (x *exchange) repeat(hasBody bool) bool {
	if x.answerBegan.Load() || x.bodyBroken() {
		return false
	}
	if x.record.repeated || x.record.secondTry || hasBody || !safeToRepeat(x.in.Method) {
		return false
	}
	x.record.repeated = true
	x.occupy(x.record.backend, x.to)
	return true
}

// bodyBroken tells whether reading the client's body failed: the transport then gives
// up the connection to the application, whatever the application does.
func (x *exchange) bodyBroken() bool { return x.body != nil && x.body.broken.Load() }

func safeToRepeat(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// answerBegins is called at the first byte of an answer, by another goroutine.
func (x *exchange) answerBegins() { x.answerBegan.Store(true) }

// forbidReplay keeps Go's transport for HTTP/1.1 from sending a request again by
// itself when a reused connection turns out to be closed after the request was sent.
// The transport would do so for every such connection that it meets, if the method is
// one of these and there is no body, or if a header says that the request is idempotent.
func forbidReplay(out *http.Request, hasBody bool) {
	switch out.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		// With Expect the transport would wait for 100 Continue to send the body.
		if !hasBody && out.Header["Expect"] == nil {
			out.Body, out.TransferEncoding = emptyBody{}, identity
		}
	}
	// Applications ignore the case of header names; the transport's check does not.
	for _, name := range [...]string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values := out.Header[name]; values != nil {
			delete(out.Header, name)
			out.Header[strings.ToLower(name)] = values
		}
	}
}

// identity makes the transport send a body as it is, without chunks: an empty one then
// leaves no trace, neither in the header nor after it.
var identity = []string{"identity"}

// emptyBody is a body that the transport does not know to be empty.
type emptyBody struct{}

// Read is part of io.ReadCloser.
func (emptyBody) Read([]byte) (int, error) { return 0, io.EOF }

// WriteTo is part of io.WriterTo, which needs no buffer.
func (emptyBody) WriteTo(io.Writer) (int64, error) { return 0, nil }

// Close is part of io.ReadCloser.
func (emptyBody) Close() error { return nil }
