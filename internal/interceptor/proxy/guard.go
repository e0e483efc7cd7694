package proxy

import (
	"errors"
	"net/http"
	"runtime/debug"
)

// guard ends a request that panics, and nothing but that, and logs the panic. The HTTP
// server's own log would show it as one line among many about clients.
func (x *exchange) guard() {
	cause := recover()
	if cause == nil {
		return
	}
	if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(http.ErrAbortHandler)
	}
	x.proxy.metrics.panics.Inc()
	x.proxy.log.Error("a panic while serving a request; this is an error of the interceptor",
		"host", x.in.Host, "panic", cause, "stack", string(debug.Stack()))
	if x.code != 0 { // the answer has begun
		panic(http.ErrAbortHandler)
	}
	h := x.w.Header()
	clear(h)
	h["Connection"] = closing
	x.refuse(http.StatusInternalServerError, "the interceptor failed to serve the request; its log says more")
}
