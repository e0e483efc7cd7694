package docs_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/docstest"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/clusteraccess"
)

// kubectl answers what the page's commands ask of it, with the manifest for the token, and
// writes the kubeconfig that it is given.
const kubectl = `#!/bin/sh
case "$*" in
"--context eu apply -f rbac-regions-region.yaml") ;;
"--context eu -n argo-rollouts get secret $NAME -o jsonpath={.data.token}") printf %s "$TOKEN" ;;
"--context eu -n argo-rollouts get secret $NAME -o jsonpath={.data.ca\.crt}") printf %s "$CA" ;;
"-n argo-rollouts create secret generic region-eu --from-file=kubeconfig=/dev/stdin --dry-run=client -o yaml") cat >made; echo made ;;
"apply --server-side -f -") cat >applied ;;
*) echo "what is kubectl $*?" >&2; exit 1 ;;
esac
`

// The page's commands make a Secret that steps can use, with the token of the manifest.
func TestRegionsPageMakesASecret(t *testing.T) {
	var token corev1.Secret
	documents := strings.Split(docstest.Read(t, "deploy/rbac-regions/region.yaml"), "\n---\n")
	if err := yaml.Unmarshal([]byte(documents[1]), &token); err != nil || token.Kind != "Secret" {
		t.Fatalf("%+v, %v", token, err)
	}
	ca := certificate(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte(kubectl), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	const page = "docs/how-to/step-rollouts.md"
	commands := docstest.Named(t, page, "token") + docstest.Named(t, page, "secret")
	shell := exec.CommandContext(t.Context(), "sh", "-e", "-c", commands)
	shell.Dir = dir
	encode := base64.StdEncoding.EncodeToString
	shell.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "NAME="+token.Name, "TOKEN="+encode([]byte("a.token")), "CA="+encode(ca))
	if output, err := shell.CombinedOutput(); err != nil || len(output) > 0 {
		t.Fatalf("%s%v\n%s", commands, err, output)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "applied")); string(got) != "made\n" {
		t.Errorf("%q is applied (%v)", got, err)
	}
	made, err := os.ReadFile(filepath.Join(dir, "made"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := clusteraccess.Read(map[string][]byte{"kubeconfig": made})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&clusteraccess.Access{Server: "https://eu.k8s.example.com:6443", CA: ca, Token: "a.token"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func certificate(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1)}
	signed, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})
}

// Each key that the page names is refused.
func TestRegionsPageNamesWhatIsRefused(t *testing.T) {
	kubeconfig := func(cluster, user string) map[string][]byte {
		return map[string][]byte{"kubeconfig": []byte("current-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n" +
			"clusters: [{name: a, cluster: {server: 'https://a', " + cluster + "}}]\nusers: [{name: a, user: {token: a, " + user + "}}]")}
	}
	argoCD := func(config string) map[string][]byte {
		return map[string][]byte{"server": []byte("https://a"), "config": []byte(`{"bearerToken": "a", ` + config + `}`)}
	}
	secrets := map[string]map[string][]byte{
		"exec": kubeconfig("", "exec: {command: a}"), "auth-provider": kubeconfig("", "auth-provider: {name: a}"),
		"execProviderConfig": argoCD(`"execProviderConfig": {}`), "awsAuthConfig": argoCD(`"awsAuthConfig": {}`),
		"username": kubeconfig("", "username: a"), "password": argoCD(`"password": "a"`), "as": kubeconfig("", "as: a"),
		"tokenFile": kubeconfig("", "tokenFile: a"), "client-certificate": kubeconfig("", "client-certificate: a"), "client-key": kubeconfig("", "client-key: a"),
		"certificate-authority": kubeconfig("certificate-authority: a", ""), "insecure-skip-tls-verify": kubeconfig("insecure-skip-tls-verify: true", ""),
		"insecure": argoCD(`"tlsClientConfig": {"insecure": true}`), "http://": {"server": []byte("http://a"), "config": []byte(`{"bearerToken": "a"}`)},
		"proxy-url": kubeconfig("proxy-url: a", ""), "proxyUrl": argoCD(`"proxyUrl": "a"`),
	}
	for _, row := range docstest.Table(t, "docs/how-to/step-rollouts.md", "| refused | instead |") {
		for _, key := range docstest.Quoted(row[0]) {
			data, is := secrets[key]
			if _, err := clusteraccess.Read(data); !is || err == nil || !strings.Contains(err.Error(), key) {
				t.Errorf("%s: %v", key, err)
			}
			delete(secrets, key)
		}
	}
	if len(secrets) > 0 {
		t.Errorf("the page does not name %v", secrets)
	}
}
