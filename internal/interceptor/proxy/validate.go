package proxy

import (
	"net/http"
	"slices"
	"strings"
)

// validate answers 400 to requests that Go's server takes, and that an application may
// read differently.
func (p *Proxy) validate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// In HTTP/2 the target can have a space; in HTTP/1.1 it would end there.
		if strings.ContainsAny(r.RequestURI, "# ") {
			refuse(w, r, http.StatusBadRequest, "the request target has a fragment or a space, which is not to be sent")
			return
		}
		// Go's server refuses this in HTTP/1.1; in HTTP/2 it uses the first value.
		lengths := r.Header["Content-Length"]
		if slices.ContainsFunc(lengths, func(length string) bool { return length != lengths[0] }) {
			refuse(w, r, http.StatusBadRequest, "the request has more than one Content-Length, and they differ")
			return
		}
		next.ServeHTTP(w, r)
	})
}
