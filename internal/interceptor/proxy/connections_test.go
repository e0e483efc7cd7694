package proxy

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// No more connections are open than allowed: the next is closed at once. When one
// closes, also one that became a tunnel, there is room for another.
func TestConnectionsOfClientsAreBounded(t *testing.T) {
	w := newWorld(t, func(s *Settings) { s.MaxConnections = 2 })
	var log logged
	w.proxy.clients.log = log.logger()
	w.service("stable", "", w.app(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			_, _ = io.WriteString(w, "ok")
			return
		}
		c, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: test\r\n\r\n")
		_, _ = io.Copy(io.Discard, buffered)
	}))
	w.object("")
	w.commit()

	ask := func(c *raw) {
		t.Helper()
		c.send("GET / HTTP/1.1\r\nHost: app.test\r\n\r\n")
		if res, body := c.answer(http.MethodGet); body != "ok" {
			t.Fatalf("answered %s %q", res.Status, body)
		}
	}
	open := func(want float64) {
		t.Helper()
		eventually(t, "the gauge", func() bool { return value(t, w.proxy, "interceptor_connections", "proxy") == want })
	}
	plain, tunnel := dial(t, w.address), dial(t, w.address)
	ask(plain)
	tunnel.send("GET / HTTP/1.1\r\nHost: app.test\r\nConnection: Upgrade\r\nUpgrade: test\r\n\r\n")
	if res := tunnel.header(http.MethodGet); res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("answered %s", res.Status)
	}
	open(2)
	for range 3 {
		if !dial(t, w.address).closed() {
			t.Fatal("a third connection is open")
		}
	}
	if n := value(t, w.proxy, "interceptor_connections_refused_total", "proxy"); n != 3 {
		t.Errorf("%v are counted as refused, want 3", n)
	}
	if n := strings.Count(log.String(), "--max-connections"); n != 1 {
		t.Errorf("the log says %d times that there are no more:\n%s", n, log.String())
	}
	ask(plain) // open connections are still served
	_ = tunnel.conn.Close()
	open(1)
	next := dial(t, w.address)
	ask(next)
	_ = next.conn.Close()
	_ = plain.conn.Close()
	open(0)
}

// Clients' connections do not count against the limit for kedify-proxies.
func TestConnectionsOfKedifyProxiesAreCountedApart(t *testing.T) {
	w := newWorld(t, func(s *Settings) { s.MaxConnections = 1 })
	w.commit()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = w.server.ServeFallback(l, FallbackPeers{}) }() // newWorld's cleanup ends it
	dial(t, w.address)
	eventually(t, "the client counts", func() bool { return value(t, w.proxy, "interceptor_connections", "proxy") == 1 })
	if !dial(t, w.address).closed() {
		t.Error("a second client's connection is open")
	}
	dial(t, l.Addr().String())
	eventually(t, "the kedify-proxy counts", func() bool { return value(t, w.proxy, "interceptor_connections", "fallback") == 1 })
}
