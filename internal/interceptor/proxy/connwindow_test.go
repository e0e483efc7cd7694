package proxy

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
)

// serveTLS has the world's server serve with TLS as well, and returns its address.
func (w *world) serveTLS(certFile, keyFile string) string {
	w.t.Helper()
	certificate, err := LoadCertificate(certFile, keyFile, slog.New(slog.DiscardHandler))
	if err != nil {
		w.t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- w.server.ServeTLS(l, certificate) }()
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = w.server.Shutdown(ctx) // tests of Shutdown check its result
		if err := <-served; err != nil {
			w.t.Errorf("ServeTLS: %v", err)
		}
	})
	return l.Addr().String()
}

// fromTLS has the world's server serve with TLS as well, and returns a client of it
// that speaks HTTP/2.
func (w *world) fromTLS() *http.Client {
	w.t.Helper()
	certFile, keyFile, roots := writeCertificate(w.t.(*testing.T), w.t.TempDir(), "app.test")
	address := w.serveTLS(certFile, keyFile)
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "app.test"}, Protocols: new(http.Protocols),
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		},
	}
	transport.Protocols.SetHTTP2(true)
	w.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// The flow-control window of a connection is charged once, not once for each of its
// requests.
func TestTheWindowOfAConnectionIsChargedOnce(t *testing.T) {
	const requests = 20
	clients := map[string]func(*world) *http.Client{
		"plain text": func(w *world) *http.Client { return h2cClient(w.t.(*testing.T)) },
		"TLS":        (*world).fromTLS,
		"fallback":   func(w *world) *http.Client { return w.fromEnvoy(w.serveFallback(), "demo/app", true) },
	}
	for name, client := range clients {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.cold("demo/app")
			c := client(w)
			send := func() context.CancelFunc {
				ctx, cancel := context.WithCancel(context.Background())
				body, never := io.Pipe()
				t.Cleanup(func() { _ = never.Close(); cancel() })
				r := w.request(http.MethodPost, "/", body).WithContext(ctx)
				r.Host = "app.demo"
				if name == "TLS" {
					r.URL.Scheme = "https"
				}
				r.Trailer = http.Header{"X-Sum": nil} // so that the body is not read ahead
				w.inBackground(c, r)
				return cancel
			}
			var leave []context.CancelFunc
			for i := range requests {
				leave = append(leave, send())
				eventually(t, "the request waits", func() bool { return w.heldFor("demo/app") == i+1 })
				windows := int64(min(i+1, connectionWindow/streamWindow)) * streamWindow
				if rest := w.roomUsed() - windows - int64(i+1)*(heldRequest+chunkHTTP2); rest < 0 || rest > int64(i+1)<<10 {
					t.Fatalf("%d bytes are charged to %d requests, %d of them windows; %d are left for headers", w.roomUsed(), i+1, windows, rest)
				}
			}
			// The requests that are left can fill what the others leave free.
			for i, cancel := range leave[:requests/2] {
				cancel()
				eventually(t, "the request is given up", func() bool { return w.heldFor("demo/app") == requests-1-i })
			}
			if used, least := w.roomUsed(), int64(connectionWindow+requests/2*(heldRequest+chunkHTTP2)); used < least || used > least+requests<<10 {
				t.Errorf("%d bytes are charged, want some more than %d", used, least)
			}
		})
	}
}
