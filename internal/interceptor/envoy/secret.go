package envoy

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
)

// Secret returns the certificate of the TLS listener: the chain and the key, both in
// PEM. It does not check them.
func Secret(certPEM, keyPEM []byte) *tlsv3.Secret {
	return &tlsv3.Secret{
		Name: SecretName,
		Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
			CertificateChain: inline(certPEM),
			PrivateKey:       inline(keyPEM),
		}},
	}
}

func inline(b []byte) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: b}}
}
