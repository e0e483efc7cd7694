// Package clusteraccess reads from a Secret how another cluster is reached: from a kubeconfig,
// or from one of the Secrets in which Argo CD keeps its clusters.
//
// The plugin runs beside the controller's own credentials, in its network. So it takes nothing
// from a Secret but a URL, certificates and a token: a Secret that would have it run a program,
// read a file, use a proxy or trust any certificate is refused, with the name of the key and
// what to write instead.
package clusteraccess

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/steps/outbound"
)

// maxText bounds the text of a Secret that is read, in bytes.
const maxText = 256 << 10

// Access is how a cluster is reached.
type Access struct {
	// Server is the URL of the API server, with https.
	Server string
	// ServerName is the name in the API server's certificate where that is not the URL's host.
	ServerName string
	// CA has the certificates (PEM) of the authorities that are trusted; nil is the system's.
	CA []byte
	// Token is a bearer token; empty for none.
	Token string
	// Certificate is a client certificate with its key (PEM); nil for none.
	Certificate []byte
}

// Read reads the data of a Secret. The error names the key and what to write instead, and shows
// no value.
func Read(data map[string][]byte) (*Access, error) {
	kubeconfig, isKubeconfig := data["kubeconfig"]
	value, isValue := data["value"]
	_, hasServer := data["server"]
	_, hasConfig := data["config"]
	isArgoCD := hasServer || hasConfig
	switch {
	case isKubeconfig && isValue, (isKubeconfig || isValue) && isArgoCD:
		return nil, errors.New("it has a kubeconfig twice, or beside the keys server and config: want one of kubeconfig, value, or server and config")
	case isKubeconfig:
		return readKubeconfig("kubeconfig", kubeconfig)
	case isValue:
		return readKubeconfig("value", value)
	case isArgoCD:
		return readArgoCD(data)
	default:
		return nil, errors.New("it has no kubeconfig: want one under the key kubeconfig (or value), or the keys server and config of a cluster of Argo CD")
	}
}

// tokens are what a header can carry.
var tokens = regexp.MustCompile(`^[A-Za-z0-9._~+/=:-]+$`)

// check returns an error if the access is not complete. The names are those of the keys in
// the Secret.
func (a *Access) check(names keys) (*Access, error) {
	a.Server = strings.TrimSpace(a.Server)
	at, err := outbound.ParseURL(a.Server)
	switch {
	case a.Server == "":
		return nil, fmt.Errorf("%s: want the URL of the API server, such as https://eu.example.com:6443", names.server)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", names.server, err)
	case !strings.HasPrefix(at.Origin(), "https://"):
		return nil, fmt.Errorf("%s: %s is not encrypted: want a URL that begins with https://", names.server, at.Origin())
	case strings.ContainsAny(a.Server, "?#"):
		return nil, fmt.Errorf("%s: want a URL without a query and a fragment", names.server)
	case a.CA != nil && !x509.NewCertPool().AppendCertsFromPEM(a.CA):
		return nil, fmt.Errorf("%s: want a certificate in PEM, which begins with -----BEGIN CERTIFICATE-----, in base64", names.ca)
	}
	a.Token = strings.TrimSpace(a.Token)
	if a.Token != "" && !tokens.MatchString(a.Token) {
		return nil, fmt.Errorf("%s: want a bearer token without spaces and line breaks (in a kubeconfig it is not in base64)", names.token)
	}
	if a.Token == "" && a.Certificate == nil {
		return nil, fmt.Errorf("it has no credentials: want %s, or %s and %s (%s)", names.token, names.cert, names.key, wayOut)
	}
	return a, nil
}

// setCertificate sets the client certificate from a certificate and its key, both or neither of
// which are there.
func (a *Access) setCertificate(certificate, key []byte, names keys) error {
	switch {
	case len(certificate) == 0 && len(key) == 0:
		return nil
	case len(certificate) == 0:
		return fmt.Errorf("%s is missing: %s needs it", names.cert, names.key)
	case len(key) == 0:
		return fmt.Errorf("%s is missing: %s needs it", names.key, names.cert)
	}
	both := bytes.Join([][]byte{certificate, key}, []byte("\n"))
	if _, err := tls.X509KeyPair(both, both); err != nil {
		return fmt.Errorf("%s and %s: want a certificate and its key in PEM, in base64: %w", names.cert, names.key, err)
	}
	a.Certificate = both
	return nil
}

// keys name the keys of a Secret for messages.
type keys struct{ server, ca, token, cert, key string }

// wayOut is what can be done in place of what is refused. The message of a step has little room.
const wayOut = "make a token in that cluster (docs/how-to/step-rollouts.md)"

// Config returns the configuration of a client for the cluster. Its connections go to allowed
// hosts and checked addresses alone, as those of requests do, and follow no redirects.
func (a *Access) Config(client *outbound.Client, hosts outbound.Hosts, userAgent string) (*rest.Config, error) {
	transport, err := client.RoundTripper(outbound.Request{URL: a.Server, Hosts: hosts, CA: a.CA, ClientCert: a.Certificate}, a.ServerName)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host: a.Server, BearerToken: a.Token, Transport: transport, QPS: -1, UserAgent: userAgent,
		WarningHandler: rest.NoWarnings{},
	}, nil
}
