package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/settings"
)

func mutual(a *authority) func(*settings.Settings) {
	return func(o *settings.Settings) {
		o.XDSCertFile, o.XDSKeyFile = a.files("interceptor", a.sign("interceptor", ecdsaKey(a.t)))
		o.XDSClientCAFile = a.file("ca.crt")
	}
}

// handshakes counts the TLS connections of Envoy to the interceptor.
const handshakes = "cluster.xds_cluster.ssl.handshake"

func TestMutualTLSWithKedifyProxy(t *testing.T) {
	a := newAuthority(t, "authority")
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "app") }))
	t.Cleanup(app.Close)
	certFile, keyFile := a.files("kedify-proxy", a.sign("kedify-proxy", ecdsaKey(t)))
	for name, tt := range map[string]struct {
		serverName string
		sotw       bool
	}{"by address": {}, "by name": {serverName: "app.example.com", sotw: true}} {
		t.Run(name, func(t *testing.T) {
			s := newStack(t, mutual(a))
			s.object("demo")
			s.endpoint("demo", app.Listener.Addr().String())
			s.startEnvoy(envoy.BootstrapOptions{
				CAFile: a.file("ca.crt"), CertFile: certFile, KeyFile: keyFile, ServerName: tt.serverName, SotW: tt.sotw,
			})
			s.connected()
			if s.envoy.Stat(handshakes) == 0 {
				t.Errorf("%s is 0 with a connection", handshakes)
			}
			s.answered(newClient(t, &http.Transport{}), "http", s.o.KedifyProxy.Port, "app")
		})
	}
	t.Run("Envoy asks who answers", func(t *testing.T) {
		s := newStack(t, mutual(a))
		s.commit()
		s.startEnvoy(envoy.BootstrapOptions{
			CAFile: a.file("ca.crt"), CertFile: certFile, KeyFile: keyFile, ServerName: "another.example.com",
		})
		s.envoy.Wait("a certificate that is refused", func() error {
			if s.envoy.Stat("cluster.xds_cluster.ssl.fail_verify_san") == 0 {
				return errors.New("none was")
			}
			return nil
		})
		// Not control_plane.connected_state, which is 1 while a connection is being made.
		if n := s.envoy.Stat(handshakes); n != 0 {
			t.Errorf("%s is %d: it is connected all the same", handshakes, n)
		}
	})
}

func TestMutualTLSTurnsStrangersAway(t *testing.T) {
	a, other := newAuthority(t, "authority"), newAuthority(t, "another authority")
	s := newStack(t, mutual(a))
	s.commit()
	for name, tt := range map[string]struct {
		certificates []tls.Certificate
		served       bool
	}{
		"a certificate":                    {[]tls.Certificate{*a.sign("kedify-proxy", ecdsaKey(t))}, true},
		"no certificate":                   {nil, false},
		"a certificate of another's":       {[]tls.Certificate{*other.sign("kedify-proxy", ecdsaKey(t))}, false},
		"a certificate signed by no other": {[]tls.Certificate{*selfSigned(t)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := s.show(a, tt.certificates...)
			if tt.served && err != nil {
				t.Errorf("turned away: %v", err)
			}
			var refused *net.OpError
			if !tt.served && (!errors.As(err, &refused) || refused.Timeout()) {
				t.Errorf("got %q and %v, and was to be refused by an alert", got, err)
			}
		})
	}
	t.Run("without TLS", func(t *testing.T) {
		c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", s.o.XDSPort))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		if _, err := io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		// A frame of SETTINGS would begin with its length, 0x00.
		if got, err := firstByte(c); err == nil && got == 0 {
			t.Error("it is served")
		}
	})
}

// Another authority in the file replaces the previous one.
func TestMutualTLSTakesTheNewestAuthority(t *testing.T) {
	a, other := newAuthority(t, "authority"), newAuthority(t, "another authority")
	s := newStack(t, mutual(a))
	s.commit()
	before, after := a.sign("kedify-proxy", ecdsaKey(t)), other.sign("kedify-proxy", ecdsaKey(t))
	if _, err := s.show(a, *before); err != nil {
		t.Fatalf("turned away: %v", err)
	}
	text, err := os.ReadFile(other.file("ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	a.write("ca.crt", text)
	for deadline := time.Now().Add(patience); ; {
		_, err := s.show(a, *after)
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("a client of the new authority is turned away: %v", err)
		}
	}
	if got, err := s.show(a, *before); err == nil {
		t.Errorf("a client of the authority before is served %q", got)
	}
}

// show connects to the xDS server, whose certificate the authority has signed, with this
// certificate, or none, whatever the server asks for. It returns the first byte that the
// server sends: in TLS 1.3 a client learns only by reading that it is refused.
func (s *stack) show(a *authority, certificates ...tls.Certificate) (byte, error) {
	s.t.Helper()
	c, err := tls.Dial("tcp", fmt.Sprint("127.0.0.1:", s.o.XDSPort), &tls.Config{
		RootCAs: a.pool(), NextProtos: []string{"h2"},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if len(certificates) == 0 {
				return new(tls.Certificate), nil
			}
			return &certificates[0], nil
		},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	return firstByte(c)
}

func selfSigned(t *testing.T) *tls.Certificate {
	a := newAuthority(t, "kedify-proxy")
	return &tls.Certificate{Certificate: [][]byte{a.certificate.Raw}, PrivateKey: a.key}
}

// firstByte reads the first byte that a server sends.
func firstByte(c net.Conn) (byte, error) {
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return 0, err
	}
	var one [1]byte
	_, err := io.ReadFull(c, one[:])
	return one[0], err
}
