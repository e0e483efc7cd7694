package cluster

import (
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// writeKubeconfigs writes a kubeconfig for each client of the API server, with
// the certificates embedded so that a file works wherever it is copied to.
func writeKubeconfigs(l Layout) error {
	for certificate, path := range map[string]string{
		"admin":                   l.Kubeconfig(),
		"kube-controller-manager": l.pki("kube-controller-manager.kubeconfig"),
		"kube-scheduler":          l.pki("kube-scheduler.kubeconfig"),
		"node":                    l.pki("node.kubeconfig"),
	} {
		if err := writeKubeconfig(l, certificate, path); err != nil {
			return fmt.Errorf("kubeconfig of %s: %w", certificate, err)
		}
	}
	return nil
}

func writeKubeconfig(l Layout, certificate, path string) error {
	var content [3][]byte
	for i, file := range []string{"ca.crt", certificate + ".crt", certificate + ".key"} {
		var err error
		if content[i], err = os.ReadFile(l.pki(file)); err != nil {
			return err
		}
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["sandbox"] = &clientcmdapi.Cluster{Server: APIServerURL, CertificateAuthorityData: content[0]}
	config.AuthInfos[certificate] = &clientcmdapi.AuthInfo{ClientCertificateData: content[1], ClientKeyData: content[2]}
	config.Contexts["sandbox"] = &clientcmdapi.Context{Cluster: "sandbox", AuthInfo: certificate}
	config.CurrentContext = "sandbox"
	return clientcmd.WriteToFile(*config, path)
}

// restConfig reads a kubeconfig for use without client-side rate limits: the
// API server's priority and fairness does that.
func restConfig(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, nil
}
