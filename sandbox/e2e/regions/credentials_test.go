package regions

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/region"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// namespaceReader is a ServiceAccount that may read the Rollouts of the test's namespace
// alone, as deploy/rbac-regions/region.yaml has it for some namespaces.
const namespaceReader = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: argo-rollouts-region}
subjects: [{kind: ServiceAccount, name: reader}]
`

func (w *world) of(name string) *e2etest.Namespace {
	if name == home {
		return w.home
	}
	return w.eu
}

// token returns the token of deploy/rbac-regions/region.yaml, which all tests share.
func (w *world) token(name string) string {
	w.t.Helper()
	manifest, err := os.ReadFile("../../../deploy/rbac-regions/region.yaml")
	if err != nil {
		w.t.Fatal(err)
	}
	n := w.of(name)
	n.Apply(string(manifest))
	var token string
	e2etest.Eventually(w.t, e2etest.Patience, "a token of cluster "+name, func(ctx context.Context) error {
		secret, err := n.Kube.CoreV1().Secrets(e2etest.ControllerNamespace).Get(ctx, "argo-rollouts-region", metav1.GetOptions{})
		if err == nil && len(secret.Data["token"]) == 0 {
			err = errors.New("Secret argo-rollouts-region has none yet")
		}
		if err == nil {
			token = string(secret.Data["token"])
		}
		return err
	})
	return token
}

// namespaceToken returns a new token of namespaceReader.
func (w *world) namespaceToken(name string) string {
	w.t.Helper()
	w.token(name) // for the ClusterRole
	w.of(name).Apply(namespaceReader)
	return strings.TrimSpace(w.of(name).Kubectl("create", "token", "reader"))
}

// kubeconfig returns a kubeconfig for a cluster at an address, without a user.
func (w *world) kubeconfig(name, address string) *clientcmdapi.Config {
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: "https://" + address, CertificateAuthorityData: w.of(name).Config.CAData}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "c"
	return config
}

func (w *world) tokenKubeconfig(name, address, token string) *clientcmdapi.Config {
	config := w.kubeconfig(name, address)
	config.AuthInfos["u"].Token = token
	return config
}

// kubeconfigSecret returns a Secret with a kubeconfig.
func kubeconfigSecret(name string, config *clientcmdapi.Config) string {
	text, err := clientcmd.Write(*config)
	if err != nil {
		panic(err) // it is written to memory
	}
	return secret(name, "", map[string]string{"kubeconfig": string(text)})
}

// argoCDSecret returns a Secret as Argo CD has one for each cluster.
func argoCDSecret(name, address string, config map[string]any) string {
	text, err := json.Marshal(config)
	if err != nil {
		panic(err) // it is made of texts
	}
	return secret(name, "labels: {argocd.argoproj.io/secret-type: cluster}", map[string]string{
		"name": name, "server": "https://" + address, "config": string(text),
	})
}

func secret(name, metadata string, data map[string]string) string {
	text := fmt.Sprintf("---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: %s\n  namespace: argo-rollouts\n%s\ndata:\n", name, e2etest.Indent(2, metadata))
	for key, value := range data {
		text += fmt.Sprintf("  %s: %s\n", key, base64.StdEncoding.EncodeToString([]byte(value)))
	}
	return text
}

// certificate returns a client certificate of the second cluster, and its key, as PEM.
func (w *world) certificate() (cert, key []byte) {
	w.t.Helper()
	kubeconfigs, err := w.home.Kube.CoreV1().Secrets(region.Namespace).Get(w.t.Context(), region.Kubeconfigs, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	config, err := clientcmd.Load(kubeconfigs.Data[region.Admin])
	if err != nil {
		w.t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		return user.ClientCertificateData, user.ClientKeyData
	}
	w.t.Fatal("the administrator's kubeconfig has no user")
	return nil, nil
}
