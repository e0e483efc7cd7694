package proxy

import (
	"net"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
)

// Header values that all requests share: they must not be changed.
var (
	schemeHTTP  = []string{"http"}
	schemeHTTPS = []string{"https"}
	noValue     = []string{""}
	trailers    = []string{"trailers"}
	upgrade     = []string{"Upgrade"}
	closing     = []string{"close"}
)

// hopByHop tells whether a header is hop-by-hop. The list is that of RFC 9110, 7.6.1,
// with older ones that are still in use.
func hopByHop(name string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings":
		return true
	}
	return false
}

// copyEndToEnd copies the end-to-end headers of from into to. Both share the lists of
// values, which must not be changed; appending to one copies it.
func copyEndToEnd(to, from http.Header) {
	named := from["Connection"]
	for name, values := range from {
		if hopByHop(name) || named != nil && name != "" && hasToken(named, name) {
			continue
		}
		to[name] = values[:len(values):len(values)]
	}
}

// hasToken tells whether a comma separated list has a token, ignoring case.
func hasToken(values []string, token string) bool {
	for _, value := range values {
		for entry := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(textproto.TrimString(entry), token) {
				return true
			}
		}
	}
	return false
}

// upgradeTo returns the protocol that a message asks to upgrade to, "" for none. An
// upgrade to HTTP/2 is ignored: clients can speak HTTP/2 from the start, and requests
// in a tunnel would bypass the routes.
func upgradeTo(h http.Header) string {
	if h["Upgrade"] == nil || !hasToken(h["Connection"], "upgrade") {
		return ""
	}
	if hasToken(h["Upgrade"], "h2c") || hasToken(h["Upgrade"], "h2") {
		return ""
	}
	return h.Get("Upgrade")
}

// outHeader returns the header to send to the application, to which addForwarded adds
// the client's address.
func outHeader(in *http.Request) http.Header {
	out := make(http.Header, len(in.Header)+4)
	copyEndToEnd(out, in.Header)
	if hasToken(in.Header["Te"], "trailers") {
		out["Te"] = trailers
	}
	if out["User-Agent"] == nil {
		out["User-Agent"] = noValue // otherwise the transport sends its own
	}
	return out
}

// addForwarded adds the client's address to X-Forwarded-For, and X-Forwarded-Host and
// X-Forwarded-Proto if they are missing. values is the memory for the new values.
func addForwarded(out http.Header, in *http.Request, values *[2]string) {
	client, _, err := net.SplitHostPort(in.RemoteAddr)
	if err == nil {
		if before := out["X-Forwarded-For"]; len(before) > 0 {
			client = strings.Join(before, ", ") + ", " + client
		}
		values[0] = client
		out["X-Forwarded-For"] = values[0:1:1]
	}
	if len(out["X-Forwarded-Host"]) == 0 {
		values[1] = in.Host
		out["X-Forwarded-Host"] = values[1:2:2]
	}
	if len(out["X-Forwarded-Proto"]) == 0 {
		out["X-Forwarded-Proto"] = schemeHTTP
		if in.TLS != nil {
			out["X-Forwarded-Proto"] = schemeHTTPS
		}
	}
}

// announce returns the Trailer header for these trailers.
func announce(trailer http.Header) []string {
	names := make([]string, 0, len(trailer))
	for name := range trailer {
		names = append(names, name)
	}
	slices.Sort(names)
	return []string{strings.Join(names, ", ")}
}
