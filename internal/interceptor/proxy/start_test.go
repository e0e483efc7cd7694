package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"testing"
	"time"
)

// Requests that come before the first table wait for it, and are then served.
func TestConnectionsWaitForTheFirstTable(t *testing.T) {
	p := New(DefaultSettings(), slog.New(slog.DiscardHandler))
	p.start.wait = patience // on a busy machine this test takes longer than startWait
	w := worldOf(t, p)
	w.service("stable", "", w.app(named("ok")))
	w.object("")
	plain := dial(t, w.address)

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile, roots := writeCertificate(t, t.TempDir(), "first")
	certificate, err := LoadCertificate(certFile, keyFile, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- w.server.ServeTLS(l, certificate) }()
	t.Cleanup(func() {
		if err := w.server.Shutdown(context.Background()); err != nil || <-served != nil {
			t.Error(err)
		}
	})
	secret := dial(t, l.Addr().String())
	secret.conn = tls.Client(secret.conn, &tls.Config{RootCAs: roots, ServerName: "app.test"})
	secret.reader = bufio.NewReader(secret.conn)

	handedOver := dial(t, w.serveFallback())
	handedOver.send(envoyHeader(t, "demo/app"))

	const request = "GET / HTTP/1.1\r\nHost: app.test\r\n\r\n"
	for _, c := range []*raw{plain, handedOver} {
		c.send(request)
		_ = c.conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if b, err := c.reader.ReadByte(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("before there is a table: %q %v, want nothing yet", b, err)
		}
	}
	sent := make(chan struct{})
	go func() { // its handshake waits, too
		defer close(sent)
		_, _ = secret.conn.Write([]byte(request))
	}()
	w.commit()
	<-sent
	for name, c := range map[string]*raw{"plain": plain, "TLS": secret, "fallback": handedOver} {
		_ = c.conn.SetReadDeadline(time.Now().Add(patience))
		if res, body := c.answer(http.MethodGet); res.StatusCode != http.StatusOK || body != "ok" {
			t.Errorf("%s: %d %q", name, res.StatusCode, body)
		}
	}
}

// Connections wait only so long if the API server does not answer, and no longer once a
// drain begins: no table will come then.
func TestConnectionsWaitForATableOnlySoLong(t *testing.T) {
	for name, over := range map[string]func(*Proxy){
		"the time is over": func(p *Proxy) { p.start.wait = time.Millisecond },
		"a drain":          func(p *Proxy) { p.start.wait = time.Hour; p.Drain() },
	} {
		t.Run(name, func(t *testing.T) {
			p := New(DefaultSettings(), slog.New(slog.DiscardHandler))
			over(p)
			s := NewServer(p)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- s.Serve(l) }()
			c := dial(t, l.Addr().String())
			c.send("GET / HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\n\r\n")
			if res, _ := c.answer(http.MethodGet); res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
				t.Errorf("%d with %v, want 503 with Retry-After", res.StatusCode, res.Header)
			}
			if err := s.Shutdown(t.Context()); err != nil || <-served != nil {
				t.Error(err)
			}
		})
	}
}
