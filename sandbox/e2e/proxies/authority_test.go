package proxies

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/pki"
)

// authority signs certificates.
type authority struct {
	*pki.Authority
	t *testing.T
}

func newAuthority(t *testing.T, name string) authority {
	t.Helper()
	a, err := pki.NewAuthority(name, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return authority{a, t}
}

// sign writes a certificate and its key, as tls.crt and tls.key in a directory.
func (a authority) sign(dir string, c pki.Certificate) {
	a.t.Helper()
	pair, err := a.Issue(c, time.Now())
	if err != nil {
		a.t.Fatal(err)
	}
	writeFile(a.t, filepath.Join(dir, "tls.crt"), pair.Cert)
	writeFile(a.t, filepath.Join(dir, "tls.key"), pair.Key)
}

// pool trusts the authority.
func (a authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.Pair.Cert)
	return pool
}

func writeFile(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// keyPair reads what sign has written.
func keyPair(t *testing.T, dir string) tls.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	return pair
}
