package proxy

import (
	"crypto/tls"
	"fmt"
	"log/slog"
)

// Certificate is a TLS certificate in files. It is read again when they change, which
// handshakes check once a second at most. If it cannot be read, the earlier
// certificate stays in use.
type Certificate struct {
	reloaded[*tls.Certificate]
}

// LoadCertificate reads a certificate and its key, both in PEM.
func LoadCertificate(certFile, keyFile string, log *slog.Logger) (*Certificate, error) {
	c := new(Certificate)
	read := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, fmt.Errorf("%s with key %s: %w; expected a certificate and its key in PEM", certFile, keyFile, err)
		}
		return &pair, nil
	}
	if err := c.load("TLS certificate", read, log, certFile, keyFile); err != nil {
		return nil, err
	}
	return c, nil
}

// Get returns the certificate for a handshake, as tls.Config.GetCertificate.
func (c *Certificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.get(), nil }
