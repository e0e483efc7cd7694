package proxy

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// refuse answers a request with an error code and one line of text, for the person
// who reads it.
func refuse(w http.ResponseWriter, r *http.Request, code int, format string, args ...any) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	body := fmt.Sprintf(format, args...) + "\n"
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if ahead, ok := r.Body.(*bodyAhead); ok && r.ProtoMajor == 1 && !ahead.complete() {
		// The rest of the body must not be taken for the next request, and the
		// answer must not wait for the body's end.
		h["Connection"] = closing
	}
	w.WriteHeader(code)
	if r.Method != http.MethodHead {
		_, _ = w.Write([]byte(body)) // an error means that the client is gone
	}
}

// refuseForNow answers 503 with Retry-After: the request may succeed later.
func (p *Proxy) refuseForNow(w http.ResponseWriter, r *http.Request, format string, args ...any) {
	w.Header().Set("Retry-After", strconv.FormatInt(int64(p.settings.RetryAfter/time.Second), 10))
	refuse(w, r, http.StatusServiceUnavailable, format, args...)
}

// refuseTooLate answers 504: the application did not answer in time.
func refuseTooLate(w http.ResponseWriter, r *http.Request, timeout time.Duration) {
	refuse(w, r, http.StatusGatewayTimeout, "the application did not answer within %v", timeout)
}

// abandon ends a request without an answer: its client is gone.
func abandon(r *http.Request) {
	recordOf(r).code = clientClosed
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
