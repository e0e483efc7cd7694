package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// authority signs certificates.
type authority struct {
	t           *testing.T
	certificate *x509.Certificate
	key         crypto.Signer
	dir         string
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{t: t, key: ecdsaKey(t), dir: t.TempDir()}
	template := template(name)
	template.NotAfter = time.Now().Add(2 * time.Hour)
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.write("ca.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return a
}

func ecdsaKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func template(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
}

// sign returns a certificate for 127.0.0.1 and app.example.com, followed by its
// authority. It also names these namespaces, as a kedify-proxy's certificate does.
func (a *authority) sign(name string, key crypto.Signer, namespaces ...string) *tls.Certificate {
	a.t.Helper()
	template := template(name)
	template.DNSNames, template.IPAddresses = []string{"app.example.com"}, []net.IP{net.IPv4(127, 0, 0, 1)}
	for _, namespace := range namespaces {
		uri, err := url.Parse("spiffe://cluster.local/ns/" + namespace + "/sa/kedify-proxy")
		if err != nil {
			a.t.Fatal(err)
		}
		template.URIs = append(template.URIs, uri)
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der, a.certificate.Raw}, PrivateKey: key}
}

// files writes a certificate as <name>.crt and <name>.key, as Kubernetes changes
// a mounted Secret: by renaming.
func (a *authority) files(name string, certificate *tls.Certificate) (certFile, keyFile string) {
	a.t.Helper()
	chain, key, err := inPEM(certificate)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.write(name+".crt", chain), a.write(name+".key", key)
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

func (a *authority) write(name string, content []byte) string {
	a.t.Helper()
	fresh := a.file(name + ".new")
	if err := os.WriteFile(fresh, content, 0o600); err != nil {
		a.t.Fatal(err)
	}
	if err := os.Rename(fresh, a.file(name)); err != nil {
		a.t.Fatal(err)
	}
	return a.file(name)
}

// pool trusts the authority.
func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}
