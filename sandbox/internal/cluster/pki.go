package cluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificateLifetime is far longer than any sandbox lives; certificates are not
// renewed.
const certificateLifetime = 10 * 365 * 24 * time.Hour

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// certificate describes what an authority signs.
type certificate struct {
	file         string // name below pki/, without .crt and .key
	commonName   string
	organization string
	hosts        []string // DNS names and IP addresses; none for a client
	client       bool
}

// clusterCertificates are all certificates signed by the cluster's authority.
// A client's common name and organization are its user and group.
func clusterCertificates() []certificate {
	return []certificate{
		{file: "apiserver", commonName: "kube-apiserver", hosts: []string{
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + clusterDomain,
			"localhost", NodeName, NodeIP.String(), KubernetesServiceIP.String(), "127.0.0.1",
		}},
		{file: "kubelet", commonName: NodeName, hosts: []string{NodeName, NodeIP.String(), "localhost", "127.0.0.1"}},
		{file: "loopback", commonName: "localhost", hosts: []string{"localhost", "127.0.0.1"}},
		{file: "admin", commonName: "sandbox-admin", organization: "system:masters", client: true},
		{file: "apiserver-kubelet-client", commonName: "kube-apiserver", organization: "system:masters", client: true},
		{file: "kube-controller-manager", commonName: "system:kube-controller-manager", client: true},
		{file: "kube-scheduler", commonName: "system:kube-scheduler", client: true},
		// The node is kubelet and kube-proxy in one, and watches whole kinds where a
		// kubelet would watch single objects: a kubelet's permissions are not enough.
		{file: "node", commonName: "system:node:" + NodeName, organization: "system:masters", client: true},
	}
}

// writePKI makes every key and certificate of a new cluster below pki/.
func writePKI(l Layout, now time.Time) error {
	if err := os.MkdirAll(l.pki(""), 0o700); err != nil {
		return err
	}
	ca, err := newAuthority("rollouts-sandbox", now)
	if err != nil {
		return err
	}
	if err := writePair(l.pki("ca"), ca.cert.Raw, ca.key); err != nil {
		return err
	}
	for _, c := range clusterCertificates() {
		if err := ca.issue(l, c, now); err != nil {
			return fmt.Errorf("certificate %s: %w", c.file, err)
		}
	}

	// The aggregation layer's own authority: a client of the API server must
	// not be able to pass for the API server.
	frontProxy, err := newAuthority("rollouts-sandbox-front-proxy", now)
	if err != nil {
		return err
	}
	if err := writePair(l.pki("front-proxy-ca"), frontProxy.cert.Raw, frontProxy.key); err != nil {
		return err
	}
	if err := frontProxy.issue(l, certificate{file: "front-proxy-client", commonName: "front-proxy-client", client: true}, now); err != nil {
		return err
	}

	// The key that signs ServiceAccount tokens.
	key, err := newKey()
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	if err := writePEM(l.pki("service-account.pub"), "PUBLIC KEY", public); err != nil {
		return err
	}
	return writeKey(l.pki("service-account.key"), key)
}

func newKey() (*ecdsa.PrivateKey, error) {
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

func newAuthority(name string, now time.Time) (*authority, error) {
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
	return &authority{cert: cert, key: key}, nil
}

// issue writes a new key and its certificate to pki/<file>.key and .crt.
func (a *authority) issue(l Layout, c certificate, now time.Time) error {
	key, err := newKey()
	if err != nil {
		return err
	}
	subject := pkix.Name{CommonName: c.commonName}
	if c.organization != "" {
		subject.Organization = []string{c.organization}
	}
	template, err := newTemplate(subject, now)
	if err != nil {
		return err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	if c.client {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	for _, host := range c.hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	if len(c.hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return err
	}
	return writePair(l.pki(c.file), raw, key)
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
		NotAfter:  now.Add(certificateLifetime),
	}, nil
}

func writePair(path string, cert []byte, key crypto.Signer) error {
	if err := writePEM(path+".crt", "CERTIFICATE", cert); err != nil {
		return err
	}
	return writeKey(path+".key", key)
}

func writeKey(path string, key crypto.Signer) error {
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "PRIVATE KEY", raw)
}

func writePEM(path, kind string, raw []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600)
}
