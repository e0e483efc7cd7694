package outbound

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// maxTransports is the number of sets of CA certificates for which connections are kept.
const maxTransports = 16

// transports holds the connections for each set of CA certificates.
type transports struct {
	mu  sync.Mutex
	all map[[sha256.Size]byte]*transportPair
}

// transportPair holds the connections for one set of CA certificates.
type transportPair struct {
	// kept reuses idle connections, single makes a new connection for each request.
	kept, single *http.Transport
	used         time.Time
}

// of returns the connections for the certificates of a CA.
func (t *transports) of(ca []byte, newTransport func(*x509.CertPool) *http.Transport) (*transportPair, error) {
	var pool *x509.CertPool
	if ca != nil {
		pool = x509.NewCertPool()
		if !pool.AppendCertsFromPEM(ca) {
			return nil, errors.New("the CA has no certificate: want PEM, which begins with -----BEGIN CERTIFICATE-----")
		}
	}
	key := sha256.Sum256(ca)
	t.mu.Lock()
	defer t.mu.Unlock()
	pair := t.all[key]
	if pair == nil {
		if len(t.all) >= maxTransports {
			t.dropOldest()
		}
		pair = &transportPair{kept: newTransport(pool), single: newTransport(pool)}
		pair.single.DisableKeepAlives = true
		if t.all == nil {
			t.all = map[[sha256.Size]byte]*transportPair{}
		}
		t.all[key] = pair
	}
	pair.used = time.Now()
	return pair, nil
}

// dropOldest evicts the least recently used pair; the caller holds t.mu.
func (t *transports) dropOldest() {
	var oldest [sha256.Size]byte
	for key, pair := range t.all {
		if there := t.all[oldest]; there == nil || pair.used.Before(there.used) {
			oldest = key
		}
	}
	t.all[oldest].kept.CloseIdleConnections()
	delete(t.all, oldest)
}

// newTransport returns a transport that trusts the CAs of a pool; nil is the system's pool.
func (c *Client) newTransport(pool *x509.CertPool) *http.Transport {
	dialer := &net.Dialer{Timeout: connectTimeout, KeepAlive: 30 * time.Second, Control: c.control, Resolver: c.opts.Resolver}
	return &http.Transport{
		Proxy:                  nil, // not the environment's: see the package comment
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool},
		TLSHandshakeTimeout:    connectTimeout,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    8,
		IdleConnTimeout:        time.Minute,
		MaxResponseHeaderBytes: maxResponseHeader,
	}
}
