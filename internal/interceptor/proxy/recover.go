package proxy

import (
	"errors"
	"net/http"
	"runtime/debug"
)

// recover ends a request that panics, and nothing but that, and logs the panic. The HTTP
// server's own log would show it as one line among many about clients.
func (p *Proxy) recover(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if cause := recover(); cause != nil {
				p.recovered(w, r, cause)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

func (p *Proxy) recovered(w http.ResponseWriter, r *http.Request, cause any) {
	if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(http.ErrAbortHandler)
	}
	p.metrics.panics.Inc()
	p.log.Error("a panic while serving a request; this is an error of the interceptor",
		"host", r.Host, "panic", cause, "stack", string(debug.Stack()))
	if recordOf(r).code != 0 { // the answer has begun
		panic(http.ErrAbortHandler)
	}
	h := w.Header()
	clear(h)
	h["Connection"] = closing
	refuse(w, r, http.StatusInternalServerError, "the interceptor failed to serve the request; its log says more")
}
