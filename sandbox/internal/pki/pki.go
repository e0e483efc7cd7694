// Package pki makes keys, and certificates that an authority of one's own signs.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"time"
)

// lifetime is far longer than any sandbox lives; certificates are not renewed.
const lifetime = 10 * 365 * 24 * time.Hour

// Pair is a certificate and its key, both as PEM.
type Pair struct{ Cert, Key []byte }

// Authority signs certificates.
type Authority struct {
	// Pair is the authority's own.
	Pair Pair

	cert *x509.Certificate
	key  crypto.Signer
}

// Certificate describes what an authority signs. A client's common name and
// organization are its user and group in Kubernetes.
type Certificate struct {
	CommonName, Organization string
	// Hosts are DNS names and IP addresses; none for a client.
	Hosts []string
	// URI is an identity such as a SPIFFE ID, or empty.
	URI    string
	Client bool
}

// NewAuthority makes an authority of that name.
func NewAuthority(name string, now time.Time) (*Authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	template, err := newTemplate(pkix.Name{CommonName: name}, now)
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		return nil, err
	}
	pair, err := encode(raw, key)
	return &Authority{Pair: pair, cert: cert, key: key}, err
}

// Issue makes a new key and signs its certificate.
func (a *Authority) Issue(c Certificate, now time.Time) (Pair, error) {
	key, err := newKey()
	if err != nil {
		return Pair{}, err
	}
	subject := pkix.Name{CommonName: c.CommonName}
	if c.Organization != "" {
		subject.Organization = []string{c.Organization}
	}
	template, err := newTemplate(subject, now)
	if err != nil {
		return Pair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	if c.Client {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	if c.URI != "" {
		uri, err := url.Parse(c.URI)
		if err != nil {
			return Pair{}, err
		}
		template.URIs = append(template.URIs, uri)
	}
	for _, host := range c.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	if len(c.Hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, err
	}
	return encode(raw, key)
}

// NewKey makes a key pair without a certificate, such as the one that signs
// ServiceAccount tokens.
func NewKey() (public, private []byte, err error) {
	key, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	raw, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, nil, err
	}
	private, err = encodeKey(key)
	return encodePEM("PUBLIC KEY", raw), private, err
}

func newKey() (*ecdsa.PrivateKey, error) {
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

func newTemplate(subject pkix.Name, now time.Time) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		// An hour back, so that the certificate is valid while clocks are being set.
		NotBefore: now.Add(-time.Hour),
		NotAfter:  now.Add(lifetime),
	}, nil
}

func encode(cert []byte, key crypto.Signer) (Pair, error) {
	text, err := encodeKey(key)
	return Pair{Cert: encodePEM("CERTIFICATE", cert), Key: text}, err
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return encodePEM("PRIVATE KEY", raw), nil
}

func encodePEM(kind string, raw []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw})
}
