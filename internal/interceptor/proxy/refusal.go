package proxy

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// refuse answers a request that goes nowhere, in a line for the person who reads
// it.
func (x *exchange) refuse(code int, format string, args ...any) {
	x.code = code
	h := x.w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	body := fmt.Sprintf(format, args...) + "\n"
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if ahead, ok := x.in.Body.(*bodyAhead); ok && x.in.ProtoMajor == 1 && !ahead.complete() {
		// What is being read is no next request, and the answer is not to wait
		// for its end.
		h["Connection"] = closing
	}
	x.w.WriteHeader(code)
	if x.in.Method != http.MethodHead {
		x.ends()
		_, _ = x.w.Write([]byte(body)) // who does not take it needs no telling
	}
}

// refuseForNow is for what may work in a while.
func (x *exchange) refuseForNow(format string, args ...any) {
	x.w.Header().Set("Retry-After", strconv.FormatInt(int64(x.proxy.settings.RetryAfter/time.Second), 10))
	x.refuse(http.StatusServiceUnavailable, format, args...)
}

// refuseTooLate is for an application that did not answer in time.
func (x *exchange) refuseTooLate(timeout time.Duration) {
	x.refuse(http.StatusGatewayTimeout, "the application did not answer within %v", timeout)
}

// abandon ends a request whose client is gone: nobody is there to be answered.
func (x *exchange) abandon() {
	x.code = clientClosed
	panic(http.ErrAbortHandler)
}

// shown is what of a client's words is said back to it.
func shown(s string) string {
	const longest = 120
	if len(s) > longest {
		s = s[:longest] + "…"
	}
	return strconv.QuoteToASCII(s)
}
