package xds

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// echo is an application that upgrades to a protocol in which it sends back what it
// receives. It answers /slow with each line that comes from the channel.
func echo(t testing.TB, lines <-chan string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			w.(http.Flusher).Flush()
			for line := range lines {
				_, _ = io.WriteString(w, line+"\n")
				w.(http.Flusher).Flush()
			}
			return
		}
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		w.WriteHeader(http.StatusSwitchingProtocols)
		c, b, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		_, _ = io.Copy(c, b)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.Listener.Addr().String()
}

// dial sends a request through the Envoy, and reads its answer up to the body.
func (f *fleet) dial(request string) (net.Conn, *bufio.Reader) {
	f.t.Helper()
	c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", f.port))
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, strings.ReplaceAll(request, "\n", "\r\n")); err != nil {
		f.t.Fatal(err)
	}
	b := bufio.NewReader(c)
	status, err := b.ReadString('\n')
	if err != nil || !strings.Contains(status, " 200 ") && !strings.Contains(status, " 101 ") {
		f.t.Fatalf("answered %q (%v)", status, err)
	}
	for line := status; line != "\r\n"; {
		if line, err = b.ReadString('\n'); err != nil {
			f.t.Fatal(err)
		}
	}
	return c, b
}

// Requests and WebSockets in flight outlive their route, their cluster and its last
// endpoint.
func TestRealEnvoyKeepsWhatIsInFlight(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		f := newFleet(t)
		lines := make(chan string)
		defer close(lines)
		address := echo(t, lines)
		f.service("app", address)
		f.service("canary", backend(t, "canary"))
		f.object("app")
		f.commit()
		f.start(sotw)
		socket, answers := f.dial("GET / HTTP/1.1\nHost: app.example.com\nConnection: Upgrade\nUpgrade: websocket\n\n")
		_, slow := f.dial("GET /slow HTTP/1.1\nHost: app.example.com\n\n")
		alive := func(when string) {
			t.Helper()
			if _, err := io.WriteString(socket, when+"\n"); err != nil {
				t.Fatalf("%s: %v", when, err)
			}
			if got, err := answers.ReadString('\n'); err != nil || got != when+"\n" {
				t.Fatalf("the WebSocket is cut %s: %q, %v", when, got, err)
			}
			lines <- when
			for {
				line, err := slow.ReadString('\n')
				if err != nil {
					t.Fatalf("the answer is cut %s: %v", when, err)
				}
				if line == when+"\n" {
					return
				}
			}
		}
		alive("at first")
		f.object("app", "app=10", "canary=90")
		f.commit()
		f.waitFor("app.example.com", "canary")
		alive("after the weights changed")
		f.object("app", "canary=100")
		f.commit()
		eventually(t, "the cluster removed", func() bool { return f.envoy.Stat("cluster_manager.cluster_removed") == 1 })
		alive("after its cluster was removed")
	})
}
