package proxy

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// refuse answers a request with an error code and one line of text, for the person
// who reads it.
func (x *exchange) refuse(code int, format string, args ...any) {
	x.code = code
	h := x.w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	body := fmt.Sprintf(format, args...) + "\n"
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if ahead, ok := x.in.Body.(*bodyAhead); ok && x.in.ProtoMajor == 1 && !ahead.complete() {
		// The rest of the body must not be taken for the next request, and the
		// answer must not wait for the body's end.
		h["Connection"] = closing
	}
	x.w.WriteHeader(code)
	if x.in.Method != http.MethodHead {
		x.ends()
		_, _ = x.w.Write([]byte(body)) // an error means that the client is gone
	}
}

// refuseForNow answers 503 with Retry-After: the request may succeed later.
func (x *exchange) refuseForNow(format string, args ...any) {
	x.w.Header().Set("Retry-After", strconv.FormatInt(int64(x.proxy.settings.RetryAfter/time.Second), 10))
	x.refuse(http.StatusServiceUnavailable, format, args...)
}

// refuseTooLate answers 504: the application did not answer in time.
func (x *exchange) refuseTooLate(timeout time.Duration) {
	x.refuse(http.StatusGatewayTimeout, "the application did not answer within %v", timeout)
}

// abandon ends a request without an answer: its client is gone.
func (x *exchange) abandon() {
	x.code = clientClosed
	panic(http.ErrAbortHandler)
}

// shown quotes a client's text for an error message, in ASCII and cut to 120 bytes.
func shown(s string) string {
	const longest = 120
	if len(s) > longest {
		s = s[:longest] + "…"
	}
	return strconv.QuoteToASCII(s)
}
