package proxy

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// listens tells whether an address accepts connections.
func listens(address string) bool {
	c, err := net.Dial("tcp", address)
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}

func TestShutdownLetsRequestsEnd(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "h2c"} {
		t.Run(protocol, func(t *testing.T) {
			w := newWorld(t)
			arrived, release := make(chan struct{}), make(chan struct{})
			w.service("stable", "", w.app(func(w http.ResponseWriter, r *http.Request) {
				close(arrived)
				select {
				case <-release:
				case <-r.Context().Done():
				}
				_, _ = io.WriteString(w, "whole")
			}))
			w.object("")
			w.commit()
			client := w.client
			if protocol == "h2c" {
				client = h2cClient(t)
			}
			answer := w.inBackground(client, w.request(http.MethodGet, "/", nil))
			await(t, arrived, "the request is at the application")
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- w.server.Shutdown(ctx) }()
			eventually(t, "no more connections are taken", func() bool { return !listens(w.address) })
			close(release)
			if got := <-answer; got != "200  whole" {
				t.Errorf("the request under way got %q", got)
			}
			if err := <-done; err != nil {
				t.Errorf("Shutdown: %v", err)
			}
		})
	}
}

func TestShutdownCutsWhatIsLeft(t *testing.T) {
	w := newWorld(t)
	arrived := make(chan struct{})
	w.service("stable", "", w.app(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	}))
	w.object("")
	w.commit()
	r := w.request(http.MethodGet, "/", nil)
	answer := make(chan error, 1)
	go func() {
		res, err := w.client.Do(r)
		if err == nil {
			_ = res.Body.Close()
		}
		answer <- err
	}()
	await(t, arrived, "the request is at the application")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := w.server.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown: %v, want the context's error", err)
	}
	if err := <-answer; err == nil {
		t.Error("the request was answered, and nobody did")
	}
}

// writeCertificate writes a certificate of this common name and its key to dir, and
// returns the files and a pool that trusts it.
func writeCertificate(t *testing.T, dir, name string) (certFile, keyFile string, roots *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{"app.test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots.AddCert(parsed)
	certFile, keyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "EC PRIVATE KEY", Bytes: keyDER}} {
		// As when a mounted Secret changes: another file takes the name.
		if err := os.WriteFile(file+".new", pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile, roots
}

func TestTLSListenerReloadsItsCertificate(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile, roots := writeCertificate(t, dir, "first")
	certificate, err := LoadCertificate(certFile, keyFile, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	certificate.interval = 0
	w := newWorld(t)
	w.service("stable", "", w.app(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("X-Forwarded-Proto"))
	}))
	w.object("")
	w.commit()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- w.server.ServeTLS(l, certificate) }()
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := errors.Join(w.server.Shutdown(ctx), <-served); err != nil {
			t.Error(err)
		}
	}()
	// get returns the common name of the certificate that a new connection gets.
	get := func(roots *x509.CertPool, protocol string) string {
		t.Helper()
		transport := &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "app.test"},
			Protocols:       new(http.Protocols),
		}
		transport.Protocols.SetHTTP1(protocol == "HTTP/1.1")
		transport.Protocols.SetHTTP2(protocol == "HTTP/2.0")
		defer transport.CloseIdleConnections()
		r := w.request(http.MethodGet, "/", nil)
		r.URL.Scheme, r.URL.Host = "https", l.Addr().String()
		res, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil || string(body) != "https" || res.Proto != protocol {
			t.Errorf("%s %q %v", res.Proto, body, err)
		}
		return res.TLS.PeerCertificates[0].Subject.CommonName
	}
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		if got := get(roots, protocol); got != "first" {
			t.Errorf("%s: certificate %q, want first", protocol, got)
		}
	}
	if err := os.WriteFile(keyFile, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := get(roots, "HTTP/1.1"); got != "first" {
		t.Errorf("certificate %q while the files are no good, want the one before", got)
	}
	_, _, roots = writeCertificate(t, dir, "second")
	if got := get(roots, "HTTP/1.1"); got != "second" {
		t.Errorf("certificate %q, want second", got)
	}
}

// The timeout for a request header applies to the TLS handshake, too.
func TestSlowHandshakesEndTheConnection(t *testing.T) {
	certFile, keyFile, _ := writeCertificate(t, t.TempDir(), "slow")
	certificate, err := LoadCertificate(certFile, keyFile, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(s *Settings) { s.ReadHeader = 100 * time.Millisecond })
	w.commit()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- w.server.ServeTLS(l, certificate) }()
	for name, begun := range map[string]string{"nothing": "", "half of a hello": "\x16\x03\x01\x02\x00\x01"} {
		c := dial(t, l.Addr().String())
		c.send(begun)
		if !c.closed() {
			t.Errorf("%s: the connection is open still", name)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := errors.Join(w.server.Shutdown(ctx), <-served); err != nil {
		t.Error(err)
	}
}

func TestLoadCertificateTellsWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	certFile, _, _ := writeCertificate(t, dir, "a")
	for _, keyFile := range []string{filepath.Join(dir, "missing"), certFile} {
		if _, err := LoadCertificate(certFile, keyFile, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), keyFile) {
			t.Errorf("with key %s: %v, want an error that names it", keyFile, err)
		}
	}
}

func TestAuthorityIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile, first := writeCertificate(t, dir, "first")
	for _, file := range []string{filepath.Join(dir, "missing"), keyFile} {
		if _, err := LoadAuthority(file, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v, want an error that names it", file, err)
		}
	}
	authority, err := LoadAuthority(certFile, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	authority.interval = 0
	if !authority.Get().Equal(first) {
		t.Error("it is not the first")
	}
	if err := os.WriteFile(certFile, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	if !authority.Get().Equal(first) {
		t.Error("it is not the first while the file is no good")
	}
	_, _, second := writeCertificate(t, dir, "second")
	if !authority.Get().Equal(second) {
		t.Error("it is not the second")
	}
}
