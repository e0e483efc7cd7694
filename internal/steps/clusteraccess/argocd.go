package clusteraccess

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/kedify/argo-rollouts-plugin/internal/steps/strict"
)

// argoCDConfig is what Argo CD's Secret of a cluster has under config.
type argoCDConfig struct {
	Username           string          `json:"username"`
	Password           string          `json:"password"`
	BearerToken        string          `json:"bearerToken"`
	TLSClientConfig    argoCDTLS       `json:"tlsClientConfig"`
	AWSAuthConfig      json.RawMessage `json:"awsAuthConfig"`
	ExecProviderConfig json.RawMessage `json:"execProviderConfig"`
	DisableCompression bool            `json:"disableCompression"`
	ProxyURL           string          `json:"proxyUrl"`
}

type argoCDTLS struct {
	Insecure   bool   `json:"insecure"`
	ServerName string `json:"serverName"`
	CAData     []byte `json:"caData"`
	CertData   []byte `json:"certData"`
	KeyData    []byte `json:"keyData"`
}

// readArgoCD reads the data of one of Argo CD's Secrets of clusters. What else such a Secret
// has, such as name and namespaces, is for Argo CD.
func readArgoCD(data map[string][]byte) (*Access, error) {
	if size := len(data["config"]); size > maxText {
		return nil, fmt.Errorf("config: %d bytes: want %d at most", size, maxText)
	}
	var config argoCDConfig
	if text := data["config"]; len(text) > 0 {
		if err := strict.Decode(text, &config); err != nil {
			return nil, fmt.Errorf("config: %w", err)
		}
	}
	if err := refusedArgoCD(&config); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	names := keys{
		server: "server", ca: "config: tlsClientConfig.caData", token: "config: bearerToken",
		cert: "config: tlsClientConfig.certData", key: "config: tlsClientConfig.keyData",
	}
	tls := config.TLSClientConfig
	a := &Access{Server: string(data["server"]), ServerName: tls.ServerName, Token: config.BearerToken, CA: authority(tls.CAData)}
	if err := a.setCertificate(tls.CertData, tls.KeyData, names); err != nil {
		return nil, err
	}
	return a.check(names)
}

// refusedArgoCD returns an error for what such a Secret must not have.
func refusedArgoCD(c *argoCDConfig) error {
	switch {
	case isSet(c.ExecProviderConfig):
		return errors.New("execProviderConfig: the plugin runs no program: " + wayOut)
	case isSet(c.AWSAuthConfig):
		return errors.New("awsAuthConfig: the plugin asks no cloud for credentials: " + wayOut)
	case c.TLSClientConfig.Insecure:
		return errors.New("tlsClientConfig.insecure: anyone could take the token: put the API server's CA under tlsClientConfig.caData")
	case c.ProxyURL != "":
		return errors.New("proxyUrl: the plugin uses no proxy but that of --egress-proxy: take it away")
	case c.Username != "" || c.Password != "":
		return errors.New("username and password: API servers take none: " + wayOut)
	default:
		return nil
	}
}

func isSet(value json.RawMessage) bool { return len(value) > 0 && string(value) != "null" }
