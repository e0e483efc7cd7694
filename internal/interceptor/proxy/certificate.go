package proxy

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Certificate is a TLS certificate in files. It is read again when they change,
// which is looked for at handshakes, once a second at most; one that cannot be
// read leaves the one before in force.
type Certificate struct {
	certFile, keyFile string
	log               *slog.Logger
	interval          time.Duration

	mu      sync.Mutex
	looked  time.Time
	files   [2]os.FileInfo
	current *tls.Certificate
}

// LoadCertificate reads a certificate and its key, both in PEM.
func LoadCertificate(certFile, keyFile string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile, log: log, interval: time.Second}
	if err := c.read(); err != nil {
		return nil, err
	}
	c.looked = time.Now()
	return c, nil
}

// Get returns the certificate for a handshake, as tls.Config.GetCertificate.
func (c *Certificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.looked) >= c.interval {
		c.looked = now
		if c.changed() {
			if err := c.read(); err != nil {
				c.log.Error("the new TLS certificate cannot be used; the one before goes on serving", "error", err)
			} else {
				c.log.Info("TLS certificate read anew", "file", c.certFile)
			}
		}
	}
	return c.current, nil
}

// changed compares what Kubernetes changes of a mounted Secret: the files that
// the names lead to.
func (c *Certificate) changed() bool {
	for i, name := range []string{c.certFile, c.keyFile} {
		now, err := os.Stat(name)
		if err != nil || !os.SameFile(now, c.files[i]) || !now.ModTime().Equal(c.files[i].ModTime()) || now.Size() != c.files[i].Size() {
			return true
		}
	}
	return false
}

// read notes what the files were before it reads them: a change in between is
// seen the next time.
func (c *Certificate) read() error {
	var files [2]os.FileInfo
	for i, name := range []string{c.certFile, c.keyFile} {
		info, err := os.Stat(name)
		if err != nil {
			return fmt.Errorf("TLS certificate: %w; expected a file in PEM", err)
		}
		files[i] = info
	}
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("TLS certificate %s with key %s: %w; expected a certificate and its key in PEM", c.certFile, c.keyFile, err)
	}
	c.files, c.current = files, &pair
	return nil
}
