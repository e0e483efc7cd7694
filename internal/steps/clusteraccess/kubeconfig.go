package clusteraccess

import (
	"errors"
	"fmt"
	"slices"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/steps/strict"
)

const inline = "the plugin reads no files: put its content under "

// readKubeconfig reads the kubeconfig under a key of a Secret: what its current context names.
func readKubeconfig(key string, text []byte) (*Access, error) {
	a, err := parseKubeconfig(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return a, nil
}

func parseKubeconfig(text []byte) (*Access, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("%d bytes: want %d at most", len(text), maxText)
	}
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, errors.New("no valid YAML: want a kubeconfig") // the error may show values
	}
	var config clientcmdapi.Config
	if err := strict.Decode(asJSON, &config); err != nil {
		return nil, err
	}
	if config.Kind != "" && config.Kind != "Config" {
		return nil, fmt.Errorf("kind %q: want a kubeconfig, whose kind is Config", shown(config.Kind))
	}
	at := slices.IndexFunc(config.Contexts, func(c clientcmdapi.NamedContext) bool { return c.Name == config.CurrentContext })
	if config.CurrentContext == "" || at < 0 {
		return nil, fmt.Errorf("current-context %q: want the name of one of contexts", shown(config.CurrentContext))
	}
	context := config.Contexts[at].Context
	at = slices.IndexFunc(config.Clusters, func(c clientcmdapi.NamedCluster) bool { return c.Name == context.Cluster })
	if at < 0 {
		return nil, fmt.Errorf("the context %s names cluster %q: want one of clusters", shown(config.CurrentContext), shown(context.Cluster))
	}
	cluster := config.Clusters[at]
	at = slices.IndexFunc(config.AuthInfos, func(u clientcmdapi.NamedAuthInfo) bool { return u.Name == context.AuthInfo })
	if at < 0 {
		return nil, fmt.Errorf("the context %s names user %q: want one of users", shown(config.CurrentContext), shown(context.AuthInfo))
	}
	user := config.AuthInfos[at]
	ofCluster, ofUser := "cluster "+shown(cluster.Name)+": ", "user "+shown(user.Name)+": "
	if err := refusedCluster(&cluster.Cluster); err != nil {
		return nil, fmt.Errorf("%s%w", ofCluster, err)
	}
	if err := refusedUser(&user.AuthInfo); err != nil {
		return nil, fmt.Errorf("%s%w", ofUser, err)
	}
	names := keys{
		server: ofCluster + "server", ca: ofCluster + "certificate-authority-data",
		token: ofUser + "token", cert: ofUser + "client-certificate-data", key: ofUser + "client-key-data",
	}
	a := &Access{Server: cluster.Cluster.Server, ServerName: cluster.Cluster.TLSServerName, Token: user.AuthInfo.Token, CA: authority(cluster.Cluster.CertificateAuthorityData)}
	if err := a.setCertificate(user.AuthInfo.ClientCertificateData, user.AuthInfo.ClientKeyData, names); err != nil {
		return nil, err
	}
	return a.check(names)
}

// refusedCluster returns an error for what a cluster of a kubeconfig must not have.
func refusedCluster(c *clientcmdapi.Cluster) error {
	switch {
	case c.InsecureSkipTLSVerify:
		return errors.New("insecure-skip-tls-verify: anyone could take the token: put the API server's CA under certificate-authority-data")
	case c.CertificateAuthority != "":
		return errors.New("certificate-authority: " + inline + "certificate-authority-data")
	case c.ProxyURL != "":
		return errors.New("proxy-url: the plugin uses no proxy but that of --egress-proxy: take it away")
	default:
		return nil
	}
}

// refusedUser returns an error for what a user of a kubeconfig must not have.
func refusedUser(u *clientcmdapi.AuthInfo) error {
	switch {
	case u.Exec != nil:
		return errors.New("exec: the plugin runs no program: " + wayOut)
	case u.AuthProvider != nil:
		return fmt.Errorf("auth-provider %s: the plugin asks no cloud for credentials: %s", shown(u.AuthProvider.Name), wayOut)
	case u.TokenFile != "":
		return errors.New("tokenFile: " + inline + "token")
	case u.ClientCertificate != "":
		return errors.New("client-certificate: " + inline + "client-certificate-data")
	case u.ClientKey != "":
		return errors.New("client-key: " + inline + "client-key-data")
	case u.Impersonate != "" || u.ImpersonateUID != "" || len(u.ImpersonateGroups) > 0 || len(u.ImpersonateUserExtra) > 0:
		return errors.New("as (impersonation): that is more than the plugin needs: " + wayOut)
	case u.Username != "" || u.Password != "":
		return errors.New("username and password: API servers take none: " + wayOut)
	default:
		return nil
	}
}

// authority returns the certificates of authorities; nil for none.
func authority(pem []byte) []byte {
	if len(pem) == 0 {
		return nil
	}
	return pem
}

// shown returns a name of a Secret's as messages show it.
func shown(name string) string {
	const limit = 64
	if len(name) > limit {
		return name[:limit] + "…"
	}
	return name
}
