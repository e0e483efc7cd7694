package proxy

import (
	"net/http"
	"net/textproto"
	"strings"
)

// dropForwarded removes the headers Forwarded, X-Forwarded-* and X-Real-Ip of clients
// that connect without an ingress between, as kedify-proxies do. A kedify-proxy's own
// are kept. It comes before match, which may choose an object by a header.
func (p *Proxy) dropForwarded(next http.Handler) http.Handler {
	if !p.settings.Edge {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if recordOf(r).handover == nil {
			for name := range r.Header {
				if describesClient(name) {
					delete(r.Header, name)
				}
			}
		}
		next.ServeHTTP(w, r)
	})
}

// describesClient tells whether a header describes the client. An underscore counts as a
// hyphen, because many applications (CGI, WSGI, Rack) do not tell them apart.
func describesClient(name string) bool {
	if strings.Contains(name, "_") {
		name = textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(name, "_", "-"))
	}
	return name == "Forwarded" || name == "X-Real-Ip" || strings.HasPrefix(name, "X-Forwarded-")
}
