package proxy

import (
	"net/http"
	"net/http/httptrace"
	"testing"
)

// While the interceptor drains, requests are served, and clients leave their connections.
func TestClientsLeaveTheirConnectionsDuringADrain(t *testing.T) {
	for name, client := range map[string]func(*world) *http.Client{
		"HTTP/1.1": func(w *world) *http.Client { return w.client },
		"h2c":      func(w *world) *http.Client { return h2cClient(w.t.(*testing.T)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.service("stable", "", w.app(named("stable")))
			w.object("")
			w.commit()
			w.client = client(w)
			// A second request at once may meet the connection before it is closed.
			ask := func() (reused bool) {
				r := w.request(http.MethodGet, "/", nil)
				r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
					GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused },
				}))
				if res, body := w.do(r); res.StatusCode != http.StatusOK || body != "stable" {
					t.Fatalf("%s %q", res.Status, body)
				}
				return reused
			}
			ask()
			eventually(t, "a connection is used again", ask)
			w.proxy.Drain()
			eventually(t, "a new connection is made", func() bool { return !ask() })
		})
	}
}
