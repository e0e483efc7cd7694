package proxy

import (
	"net/http"

	"github.com/google/uuid"
)

// requestIDHeader tells an application which line of the access log is of its request.
const requestIDHeader = "X-Request-Id"

// identify gives a request without x-request-id one, a UUID of version 4. One that the
// client sent is passed on as it is, at the edge as well; so Envoy does.
func (p *Proxy) identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := &recordOf(r).requestID
		if id[0] = r.Header.Get(requestIDHeader); id[0] == "" {
			id[0] = uuid.NewString()
			r.Header[requestIDHeader] = id[:]
		}
		next.ServeHTTP(w, r)
	})
}
