package proxy

import "net/http"

// refuseForMemory answers all requests 503 while there is hardly any memory left.
func (p *Proxy) refuseForMemory(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.memory.out.Load() {
			w.Header()["Connection"] = closing // a connection takes memory, too
			p.refuseForNow(w, r, "the interceptor is short of memory, and takes no new requests")
			return
		}
		next.ServeHTTP(w, r)
	})
}
