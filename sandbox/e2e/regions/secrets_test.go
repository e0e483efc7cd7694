package regions

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"testing"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// useSecrets starts canaries in the own cluster, one for each Secret, which wait for the one
// Rollout done of the second cluster. secrets make the manifest of a Secret of that name.
func useSecrets(t *testing.T, w *world, secrets map[string]func(name string) string) {
	t.Helper()
	w.eu.Apply(rollout("done", "[]"))
	w.eu.AwaitHealthy("done", e2etest.Image("blue"))
	release(w.eu, "done", "yellow")
	w.eu.AwaitHealthy("done", e2etest.Image("yellow"))
	at := apiServers()[eu]
	for name, secret := range secrets {
		of := w.home.Name + "-" + name
		if text := secret(of); text != "" {
			w.home.Apply(text)
		}
		w.home.Apply(preset(of, []string{at}, []string{fmt.Sprintf("{name: eu, secret: %s}", of)}, "names: [done]"))
		w.home.Apply(rollout(name, "- plugin: {name: kedify/step, config: {use: "+of+"}}"))
	}
	for name := range secrets {
		w.home.AwaitHealthy(name, e2etest.Image("blue"))
		release(w.home, name, "yellow")
	}
}

// A cluster is read with a token and with a client certificate, by a kubeconfig and by a
// Secret of Argo CD's.
func TestCredentials(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at, ca := apiServers()[eu], base64.StdEncoding.EncodeToString(w.eu.Config.CAData)
	token := w.token(eu)
	cert, key := w.certificate()
	secrets := map[string]func(string) string{
		"kubeconfig-token": func(name string) string { return kubeconfigSecret(name, w.tokenKubeconfig(eu, at, token)) },
		"namespace-token": func(name string) string {
			return kubeconfigSecret(name, w.tokenKubeconfig(eu, at, w.namespaceToken(eu)))
		},
		"kubeconfig-certificate": func(name string) string {
			config := w.kubeconfig(eu, at)
			config.AuthInfos["u"] = &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
			return kubeconfigSecret(name, config)
		},
		"argocd-token": func(name string) string {
			return argoCDSecret(name, at, map[string]any{"bearerToken": token, "tlsClientConfig": map[string]any{"caData": ca}})
		},
		"argocd-certificate": func(name string) string {
			return argoCDSecret(name, at, map[string]any{"tlsClientConfig": map[string]any{
				"caData": ca, "certData": base64.StdEncoding.EncodeToString(cert), "keyData": base64.StdEncoding.EncodeToString(key),
			}})
		},
	}
	useSecrets(t, w, secrets)
	for name := range secrets {
		w.home.AwaitHealthy(name, e2etest.Image("yellow"))
	}
}

// Each Secret that is refused says so on the Rollout: its name, the key, and the way out. It
// is mended, and the step goes on.
func TestRefusedSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := apiServers()[eu]
	token := w.token(eu)
	kubeconfig := func(change func(c *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo)) func(string) string {
		return func(name string) string {
			config := w.tokenKubeconfig(eu, at, token)
			change(config.Clusters["c"], config.AuthInfos["u"])
			return kubeconfigSecret(name, config)
		}
	}
	argoCD := func(config map[string]any) func(string) string {
		return func(name string) string { return argoCDSecret(name, at, config) }
	}
	const wayOut = "docs/how-to/step-rollouts.md"
	cases := map[string]struct {
		secret  func(name string) string
		message []string
	}{
		"missing": {func(string) string { return "" }, []string{"does not exist"}},
		"empty":   {func(name string) string { return secret(name, "", map[string]string{"token": "x"}) }, []string{"kubeconfig"}},
		"exec": {kubeconfig(func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.Exec = &clientcmdapi.ExecConfig{APIVersion: "client.authentication.k8s.io/v1", Command: "aws", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}
		}), []string{"exec", wayOut}},
		"auth-provider": {kubeconfig(func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.AuthProvider = &clientcmdapi.AuthProviderConfig{Name: "gcp"}
		}), []string{"auth-provider gcp", wayOut}},
		"files": {kubeconfig(func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.Token, u.TokenFile = "", "/var/run/token"
		}), []string{"tokenFile", "under token"}},
		"proxy": {kubeconfig(func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			c.ProxyURL = "http://10.244.0.1:3128"
		}), []string{"proxy-url", "--egress-proxy"}},
		"impersonation": {kubeconfig(func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.Impersonate = "system:admin"
		}), []string{"impersonation", wayOut}},
		"unverified": {kubeconfig(func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			c.CertificateAuthorityData, c.InsecureSkipTLSVerify = nil, true
		}), []string{"insecure-skip-tls-verify", "certificate-authority-data"}},
		"other-authority": {kubeconfig(func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			c.CertificateAuthorityData = w.home.Config.CAData
		}), []string{"certificate", "CA"}},
		"other-host": {kubeconfig(func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			c.Server = "https://kubernetes.default.svc:443"
		}), []string{"kubernetes.default.svc", "hosts"}},
		"plain-http": {kubeconfig(func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			c.Server = "http://" + at
		}), []string{"https"}},
		"argocd-aws": {argoCD(map[string]any{"awsAuthConfig": map[string]any{"clusterName": "eu"}}), []string{"awsAuthConfig", wayOut}},
		"argocd-exec": {argoCD(map[string]any{"execProviderConfig": map[string]any{"command": "argocd-k8s-auth"}}),
			[]string{"execProviderConfig", wayOut}},
		"argocd-unverified": {argoCD(map[string]any{"bearerToken": token, "tlsClientConfig": map[string]any{"insecure": true}}),
			[]string{"tlsClientConfig.insecure", "caData"}},
	}
	secrets := map[string]func(string) string{}
	for name, tc := range cases {
		secrets[name] = tc.secret
	}
	useSecrets(t, w, secrets)
	names := slices.Sorted(maps.Keys(cases))
	for _, name := range names {
		parts := append([]string{"eu has not answered"}, cases[name].message...)
		if name != "other-host" { // the host is not only the Secret's to change
			parts = append(parts, "Secret argo-rollouts/"+w.home.Name+"-"+name)
		}
		awaitWaiting(w.home, name, 0, parts...)
	}
	for _, name := range names {
		w.home.Apply(kubeconfigSecret(w.home.Name+"-"+name, w.tokenKubeconfig(eu, at, token)))
	}
	for _, name := range names {
		w.home.AwaitHealthy(name, e2etest.Image("yellow"))
	}
}
