package envoy

import (
	"errors"
	"fmt"
	"path"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"
)

// Names of the files of BootstrapOptions.SecretsDir.
const (
	CertificateFileName = "xds-certificate.yaml"
	AuthorityFileName   = "xds-authority.yaml"
)

// SecretFiles returns what BootstrapOptions.SecretsDir has to hold: the content of the
// files CertificateFileName and AuthorityFileName, in YAML. They have the paths of the
// certificate files, and no certificates.
func SecretFiles(o BootstrapOptions) (certificate, authority []byte, err error) {
	if _, err := Bootstrap(o); err != nil {
		return nil, nil, err
	}
	if o.SecretsDir == "" {
		return nil, nil, errors.New("files of secrets are for a directory of secrets, and there is none")
	}
	certificate, err = secretFile(CertificateFileName, &tlsv3.Secret{Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
		CertificateChain: file(o.CertFile), PrivateKey: file(o.KeyFile), WatchedDirectory: around(o.CertFile),
	}}})
	if err != nil {
		return nil, nil, err
	}
	authority, err = secretFile(AuthorityFileName, &tlsv3.Secret{Type: &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{
		TrustedCa: file(o.CAFile), WatchedDirectory: around(o.CAFile),
	}}})
	return certificate, authority, err
}

// around returns the directory of a file, to be watched: Kubernetes does not change the
// files of a mounted Secret, but a symbolic link beside them.
func around(name string) *corev3.WatchedDirectory {
	return &corev3.WatchedDirectory{Path: path.Dir(name)}
}

// secretFile returns a response of SDS as Envoy reads it from a file. One file holds
// one secret: Envoy rejects a second.
func secretFile(name string, s *tlsv3.Secret) ([]byte, error) {
	s.Name = secretName(name)
	if err := s.ValidateAll(); err != nil {
		return nil, fmt.Errorf("this makes no %s: %w", name, err)
	}
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(packed(s))
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", name, err)
	}
	return yaml.JSONToYAML([]byte(`{"resources":[` + string(text) + `]}`))
}

// secretName is what Envoy's statistics and its admin interface call the secret of
// a file.
func secretName(file string) string { return strings.TrimSuffix(file, ".yaml") }

// secretIn returns a reference to the secret in a file of a directory of secrets.
func secretIn(dir, name string) *tlsv3.SdsSecretConfig {
	return &tlsv3.SdsSecretConfig{Name: secretName(name), SdsConfig: &corev3.ConfigSource{
		ResourceApiVersion: corev3.ApiVersion_V3,
		ConfigSourceSpecifier: &corev3.ConfigSource_PathConfigSource{
			PathConfigSource: &corev3.PathConfigSource{Path: path.Join(dir, name)},
		},
	}}
}
