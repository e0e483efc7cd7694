package main

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/settings"
)

func TestCertificateInPEM(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := newAuthority(t, "authority")
	for name, key := range map[string]crypto.Signer{"ECDSA": ecdsaKey(t), "RSA": rsaKey, "Ed25519": edKey} {
		t.Run(name, func(t *testing.T) {
			certificate := a.sign("app", key)
			chain, keyPEM, err := inPEM(certificate)
			if err != nil {
				t.Fatal(err)
			}
			back, err := tls.X509KeyPair(chain, keyPEM)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(certificate.Certificate, back.Certificate); diff != "" {
				t.Errorf("chain (-want +got):\n%s", diff)
			}
			if !back.PrivateKey.(interface{ Equal(crypto.PrivateKey) bool }).Equal(key) {
				t.Error("it is another key")
			}
		})
	}
	if _, _, err := inPEM(&tls.Certificate{PrivateKey: "none"}); err == nil || !strings.Contains(err.Error(), "key of the certificate") {
		t.Errorf("a key that is none: %v", err)
	}
}

// The embedded proxy and kedify-proxies serve the same certificate, and a new one in its
// place without a restart.
func TestKedifyProxyServesTheCertificateOfTheFiles(t *testing.T) {
	a := newAuthority(t, "authority")
	s := newStack(t, func(o *settings.Settings) { o.CertFile, o.KeyFile = a.files("app", a.sign("first", ecdsaKey(t))) })
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("X-Forwarded-Proto"))
	}))
	t.Cleanup(app.Close)
	s.object("demo")
	s.endpoint("demo", app.Listener.Addr().String())
	s.startEnvoy(envoy.BootstrapOptions{})
	s.connected()

	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		key  crypto.Signer
	}{{"first", nil}, {"second", ecdsaKey(t)}, {"third", rsaKey}} {
		if tt.key != nil {
			a.files("app", a.sign(tt.name, tt.key))
		}
		for _, at := range []struct {
			what string
			port uint16
		}{{"kedify-proxy", s.o.KedifyProxy.TLSPort}, {"embedded proxy", s.o.TLSPort}} {
			s.envoy.Wait(fmt.Sprintf("the %s certificate at the %s", tt.name, at.what), func() error {
				// The chain is verified as by a client that trusts the authority.
				c, err := tls.Dial("tcp", fmt.Sprint("127.0.0.1:", at.port), &tls.Config{RootCAs: a.pool(), ServerName: "app.example.com"})
				if err != nil {
					return err
				}
				defer func() { _ = c.Close() }()
				if got := c.ConnectionState().PeerCertificates[0].Subject.CommonName; got != tt.name {
					return fmt.Errorf("it is the %s", got)
				}
				return nil
			})
			client := newClient(t, &http.Transport{TLSClientConfig: &tls.Config{RootCAs: a.pool()}})
			s.answered(client, "https", at.port, "https")
		}
	}
}
