package proxy

import (
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
)

// Authority is a file of CA certificates that certificates of clients are verified
// by. It is read again when it changes, as a Certificate is.
type Authority struct {
	reloaded[*x509.CertPool]
}

// LoadAuthority reads the certificates of one or more authorities, in PEM.
func LoadAuthority(file string, log *slog.Logger) (*Authority, error) {
	a := new(Authority)
	read := func() (*x509.CertPool, error) {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s: no certificate in it; expected PEM", file)
		}
		return pool, nil
	}
	if err := a.load("authority of clients", read, log, file); err != nil {
		return nil, err
	}
	return a, nil
}

// Get returns the CA certificates to verify a certificate by now. The caller must not
// change the pool.
func (a *Authority) Get() *x509.CertPool { return a.get() }
