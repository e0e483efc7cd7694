package proxy

import "net/http"

// closeConnection has a client close its connection after the answer while the
// interceptor drains or is withdrawn, when the connection has reached its maximum age, and when the
// request's length is ambiguous.
func (p *Proxy) closeConnection(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := recordOf(r)
		if p.leaves() || rec.handover.over(rec.begun) || ambiguousLength(r) {
			w.Header()["Connection"] = closing // in HTTP/2, too: Go's server then sends GOAWAY
		}
		next.ServeHTTP(w, r)
	})
}
