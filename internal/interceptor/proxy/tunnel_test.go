package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"
)

const webSocketRequest = "GET /chat HTTP/1.1\r\nHost: app.test\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n"

// echoUpgraded switches to a protocol, sends its name, which is one byte, and echoes.
func echoUpgraded(name, protocol string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Connection") != "Upgrade" || r.Header.Get("Upgrade") != "websocket" {
			http.Error(w, "not an upgrade", http.StatusBadRequest)
			return
		}
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(buffered, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+protocol+"\r\nSec-WebSocket-Accept: y\r\n\r\n"+name)
		if buffered.Flush() != nil {
			return
		}
		_, _ = io.Copy(conn, buffered.Reader)
	}
}

// upgraded opens a tunnel and returns the name of the application at its end.
func upgraded(t *testing.T, w *world, early string) (*raw, string) {
	t.Helper()
	c := dial(t, w.address)
	c.send(webSocketRequest + early)
	res := c.header(http.MethodGet)
	if res.StatusCode != http.StatusSwitchingProtocols || res.Header.Get("Upgrade") != "websocket" || res.Header.Get("Sec-WebSocket-Accept") != "y" {
		t.Fatalf("%s %v", res.Status, res.Header)
	}
	return c, c.read(1)
}

func (c *raw) read(n int) string {
	c.t.Helper()
	data := make([]byte, n)
	if _, err := io.ReadFull(c.reader, data); err != nil {
		c.t.Fatal(err)
	}
	return string(data)
}

func TestTunnelsLiveThroughChangesOfWeights(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "", w.app(echoUpgraded("s", "websocket")))
	w.service("canary", "", w.app(echoUpgraded("c", "websocket")))
	w.object("stable=50 canary=50")
	w.commit()
	first, one := upgraded(t, w, "early")
	if got := first.read(5); got != "early" {
		t.Errorf("what was sent with the request came back as %q", got)
	}
	second, other := upgraded(t, w, "")
	if one == other {
		t.Errorf("both went to %s", one)
	}
	for _, split := range []string{"stable=0 canary=100", "stable=100 canary=0", ""} {
		w.object(split)
		w.commit()
		for _, c := range []*raw{first, second} {
			c.send("hello")
			if got := c.read(5); got != "hello" {
				t.Errorf("got %q after the change to %q", got, split)
			}
		}
	}
	if got := value(t, w.proxy, "interceptor_requests_in_flight", "demo", "app", "stable"); got != 1 {
		t.Errorf("%v in flight at stable, want the tunnel", got)
	}
	// A half-close by the client is passed on, and the application's comes back.
	if err := first.conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if !first.closed() {
		t.Error("the tunnel is open still after its client said the last")
	}
}

func TestAnUpgradeThatIsNotTakenIsARequest(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "", w.app(echoUpgraded("s", "websocket")))
	w.object("")
	w.commit()
	c := dial(t, w.address)
	c.send("GET / HTTP/1.1\r\nHost: app.test\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")
	if res, _ := c.answer(http.MethodGet); res.StatusCode != http.StatusBadRequest {
		t.Fatalf("an upgrade that is not taken: %s, want the application's 400", res.Status)
	}
	c.send("GET / HTTP/1.1\r\nHost: app.test\r\n\r\n") // the connection can be used again
	c.answer(http.MethodGet)
}

func TestUpgradeToSomethingElseIsRefused(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "", w.app(echoUpgraded("s", "else")))
	w.object("")
	w.commit()
	c := dial(t, w.address)
	c.send(webSocketRequest)
	if res, _ := c.answer(http.MethodGet); res.StatusCode != http.StatusBadGateway {
		t.Errorf("%s, want 502", res.Status)
	}
}

func TestShutdownCutsTunnelsAtTheEnd(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "", w.app(echoUpgraded("s", "websocket")))
	w.object("")
	w.commit()
	c, _ := upgraded(t, w, "")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.server.Shutdown(ctx) }()
	eventually(t, "no more connections are taken", func() bool { return !listens(w.address) })
	c.send("hello")
	if got := c.read(5); got != "hello" {
		t.Errorf("%q while it drains", got)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown: %v, want the context's error", err)
	}
	if !c.closed() {
		t.Error("the tunnel is open still")
	}
}

func TestTunnelsDrain(t *testing.T) {
	var all tunnels
	remove := all.add(func() { t.Error("cut") })
	done := make(chan error, 1)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	go func() { done <- all.drain(ctx) }()
	eventually(t, "drain waits", func() bool {
		all.mu.Lock()
		defer all.mu.Unlock()
		return all.none != nil
	})
	remove()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("drain waits for nothing")
	}
	if err := all.drain(ctx); err != nil {
		t.Error(err)
	}
}
