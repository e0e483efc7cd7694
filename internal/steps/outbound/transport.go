package outbound

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"
)

// connectTimeout bounds the TCP connect, and then the TLS handshake separately.
const connectTimeout = 10 * time.Second

// ParseProxy reads the URL of an egress proxy. The error does not hold the URL, which may
// have a password.
func ParseProxy(text string) (*url.URL, error) {
	proxy, err := url.Parse(text)
	if err != nil || proxy.Scheme != "http" || proxy.Hostname() == "" || proxy.Path != "" && proxy.Path != "/" || proxy.RawQuery != "" || proxy.Fragment != "" {
		return nil, errors.New("no URL of a proxy: want one such as http://proxy.example.com:3128")
	}
	return proxy, nil
}

// tlsConfig returns what a request needs for TLS.
func (r Request) tlsConfig() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if r.CA != nil {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(r.CA) {
			return nil, errors.New("the CA has no certificate: want PEM, which begins with -----BEGIN CERTIFICATE-----")
		}
	}
	if r.ClientCert != nil {
		pair, err := tls.X509KeyPair(r.ClientCert, r.ClientCert)
		if err != nil {
			return nil, fmt.Errorf("the client certificate cannot be used: want a certificate and its key in PEM (%w)", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// transport returns the connection for one request. It is used once: net/http repeats a
// request by itself if it failed on a connection that was used before. Without a proxy, the
// address is checked as the connection is made, when the name has been resolved: a DNS answer
// that changes between two lookups cannot evade the check.
func (c *Client) transport(config *tls.Config, by access) *http.Transport {
	dialer := &net.Dialer{Timeout: connectTimeout, Resolver: c.opts.Resolver}
	transport := &http.Transport{
		DialContext: dialer.DialContext, DisableKeepAlives: true, TLSClientConfig: config,
		TLSHandshakeTimeout: connectTimeout, MaxResponseHeaderBytes: maxResponseHeader,
	}
	if c.opts.Proxy == nil {
		dialer.Control = func(_, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil {
				return refusal("the address %q is none of TCP", address)
			}
			return c.checkAddress(at.Addr(), by)
		}
		return transport
	}
	transport.Proxy = http.ProxyURL(c.opts.Proxy)
	transport.OnProxyConnectResponse = func(_ context.Context, _ *url.URL, _ *http.Request, answer *http.Response) error {
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("the egress proxy answered %d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
		}
		return nil
	}
	return transport
}
