package check

import (
	"fmt"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// connection says which cluster to look at, and with which credentials, by the flags
// that kubectl has for that.
type connection struct {
	kubeconfig string
	overrides  clientcmd.ConfigOverrides
}

func (c *connection) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.kubeconfig, clientcmd.RecommendedConfigPathFlag, "", "path of the kubeconfig (default: KUBECONFIG, else ~/.kube/config)")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ContextOverrideFlags.Namespace.Description = "namespace of the Rollouts (default: that of the kubeconfig's context)"
	names.ClusterOverrideFlags.APIServer.ShortName = "s"
	// Kubernetes knows no passwords any more.
	names.AuthOverrideFlags.Username.LongName, names.AuthOverrideFlags.Password.LongName = "", ""
	clientcmd.BindOverrideFlags(&c.overrides, flags, names)
}

// load returns the configuration of the client, and the namespace that is asked for.
func (c *connection) load() (cfg *rest.Config, namespace string, err error) {
	loader := c.loader()
	if cfg, err = loader.ClientConfig(); err != nil {
		return nil, "", fmt.Errorf("no cluster to look at: %w; set KUBECONFIG, or use --kubeconfig and --context", err)
	}
	if namespace, _, err = loader.Namespace(); err != nil {
		return nil, "", fmt.Errorf("namespace of the kubeconfig's context: %w; name one with --namespace", err)
	}
	return cfg, namespace, nil
}

// namespace returns the namespace that is asked for, as kubectl takes it where it needs
// no cluster: "default" if nothing says another.
func (c *connection) namespace() string {
	namespace, _, err := c.loader().Namespace()
	if err != nil || namespace == "" {
		return metav1.NamespaceDefault
	}
	return namespace
}

func (c *connection) loader() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &c.overrides)
}
