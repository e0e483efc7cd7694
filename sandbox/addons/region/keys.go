package region

import (
	"encoding/base64"
	"fmt"
	"net"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/argorollouts"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/pki"
)

// clients are who has a kubeconfig. Argo Rollouts is the ServiceAccount of its
// manifests, by a certificate: no token can be had before there is a cluster.
var clients = map[string]pki.Certificate{
	Admin:                     {CommonName: "region-admin", Organization: "system:masters", Client: true},
	"kube-controller-manager": {CommonName: "system:kube-controller-manager", Client: true},
	argorollouts.Name: {
		CommonName:   "system:serviceaccount:" + argorollouts.Namespace + ":" + argorollouts.Name,
		Organization: "system:serviceaccounts", Client: true,
	},
}

// secrets are the keys of the second cluster, and its clients' kubeconfigs.
func secrets() ([]*unstructured.Unstructured, error) {
	now := time.Now()
	ca, err := pki.NewAuthority("region", now)
	if err != nil {
		return nil, err
	}
	server, err := ca.Issue(pki.Certificate{CommonName: APIServer, Hosts: []string{Host, nodeIP}}, now)
	if err != nil {
		return nil, err
	}
	public, private, err := pki.NewKey()
	if err != nil {
		return nil, err
	}
	kubeconfigs := make(map[string][]byte)
	for name, certificate := range clients {
		client, err := ca.Issue(certificate, now)
		if err != nil {
			return nil, err
		}
		if kubeconfigs[name], err = kubeconfig(ca.Pair.Cert, client); err != nil {
			return nil, fmt.Errorf("kubeconfig of %s: %w", name, err)
		}
	}
	return []*unstructured.Unstructured{
		secret("pki", map[string][]byte{
			"ca.crt": ca.Pair.Cert, "apiserver.crt": server.Cert, "apiserver.key": server.Key,
			"service-account.pub": public, "service-account.key": private,
		}),
		secret(Kubeconfigs, kubeconfigs),
	}, nil
}

func kubeconfig(ca []byte, client pki.Pair) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters[Name] = &clientcmdapi.Cluster{Server: "https://" + net.JoinHostPort(Host, Port), CertificateAuthorityData: ca}
	config.AuthInfos[Name] = &clientcmdapi.AuthInfo{ClientCertificateData: client.Cert, ClientKeyData: client.Key}
	config.Contexts[Name] = &clientcmdapi.Context{Cluster: Name, AuthInfo: Name}
	config.CurrentContext = Name
	return clientcmd.Write(*config)
}

func secret(name string, data map[string][]byte) *unstructured.Unstructured {
	encoded := make(map[string]any)
	for key, value := range data {
		encoded[key] = base64.StdEncoding.EncodeToString(value)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name}, "data": encoded,
	}}
}
