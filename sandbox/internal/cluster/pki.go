package cluster

import (
	"fmt"
	"os"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/pki"
)

// clusterCertificates are all certificates signed by the cluster's authority, by the
// name of their files below pki/, without .crt and .key.
func clusterCertificates() map[string]pki.Certificate {
	return map[string]pki.Certificate{
		"apiserver": {CommonName: "kube-apiserver", Hosts: []string{
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + clusterDomain,
			"localhost", NodeName, NodeIP.String(), KubernetesServiceIP.String(), "127.0.0.1",
		}},
		"kubelet":                  {CommonName: NodeName, Hosts: []string{NodeName, NodeIP.String(), "localhost", "127.0.0.1"}},
		"loopback":                 {CommonName: "localhost", Hosts: []string{"localhost", "127.0.0.1"}},
		"admin":                    {CommonName: "sandbox-admin", Organization: "system:masters", Client: true},
		"apiserver-kubelet-client": {CommonName: "kube-apiserver", Organization: "system:masters", Client: true},
		"kube-controller-manager":  {CommonName: "system:kube-controller-manager", Client: true},
		"kube-scheduler":           {CommonName: "system:kube-scheduler", Client: true},
		// The node is kubelet and kube-proxy in one, and watches whole kinds where a
		// kubelet would watch single objects: a kubelet's permissions are not enough.
		"node": {CommonName: "system:node:" + NodeName, Organization: "system:masters", Client: true},
	}
}

// writePKI makes every key and certificate of a new cluster below pki/.
func writePKI(l Layout, now time.Time) error {
	if err := os.MkdirAll(l.pki(""), 0o700); err != nil {
		return err
	}
	ca, err := pki.NewAuthority("rollouts-sandbox", now)
	if err != nil {
		return err
	}
	if err := writePair(l.pki("ca"), ca.Pair); err != nil {
		return err
	}
	for file, c := range clusterCertificates() {
		if err := issue(ca, l.pki(file), c, now); err != nil {
			return fmt.Errorf("certificate %s: %w", file, err)
		}
	}

	// The aggregation layer's own authority: a client of the API server must
	// not be able to pass for the API server.
	frontProxy, err := pki.NewAuthority("rollouts-sandbox-front-proxy", now)
	if err != nil {
		return err
	}
	if err := writePair(l.pki("front-proxy-ca"), frontProxy.Pair); err != nil {
		return err
	}
	if err := issue(frontProxy, l.pki("front-proxy-client"), pki.Certificate{CommonName: "front-proxy-client", Client: true}, now); err != nil {
		return err
	}

	// The key that signs ServiceAccount tokens.
	public, private, err := pki.NewKey()
	if err != nil {
		return err
	}
	if err := os.WriteFile(l.pki("service-account.pub"), public, 0o600); err != nil {
		return err
	}
	return os.WriteFile(l.pki("service-account.key"), private, 0o600)
}

// issue writes a new key and its certificate to path.key and path.crt.
func issue(a *pki.Authority, path string, c pki.Certificate, now time.Time) error {
	pair, err := a.Issue(c, now)
	if err != nil {
		return err
	}
	return writePair(path, pair)
}

func writePair(path string, pair pki.Pair) error {
	if err := os.WriteFile(path+".crt", pair.Cert, 0o600); err != nil {
		return err
	}
	return os.WriteFile(path+".key", pair.Key, 0o600)
}
