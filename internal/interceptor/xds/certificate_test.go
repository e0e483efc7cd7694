package xds

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/netip"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/freeport"
)

func certificate(t *testing.T, name string) (certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{"app.example.com"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

func TestRealEnvoyServesTheNewestCertificate(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		f := newFleet(t)
		tlsPort := freeport.Get(t)
		f.server.render = newRenderer(newTranslator(t, envoy.Options{
			Address: netip.MustParseAddr("127.0.0.1"), HTTPPort: f.port, TLSPort: tlsPort, TLS: true,
		})) // no Envoy is connected yet
		f.service("app", backend(t, "app"))
		f.object("app")
		f.commit()
		f.server.SetCertificate(certificate(t, "first"))
		f.start(sotw)
		f.waitFor("app.example.com", "app")
		served := func() string {
			c, err := tls.Dial("tcp", fmt.Sprint("127.0.0.1:", tlsPort), &tls.Config{InsecureSkipVerify: true})
			if err != nil {
				return err.Error()
			}
			defer func() { _ = c.Close() }()
			return c.ConnectionState().PeerCertificates[0].Subject.CommonName
		}
		eventually(t, "the first certificate", func() bool { return served() == "first" })
		before := f.pushes()
		f.server.SetCertificate(certificate(t, "second"))
		eventually(t, "the second certificate", func() bool { return served() == "second" })
		before["secret"]++
		if got := f.pushes(); fmt.Sprint(got) != fmt.Sprint(before) {
			t.Errorf("pushes %v; expected %v", got, before)
		}
	})
}
