// Package e2etest drives and watches Rollouts in a sandbox for the end-to-end tests:
// a namespace per test that logs what happened in it when the test fails, waits with
// deadlines, the commands a person would type, and a recorder of every split an
// HTTPScaledObject has ever carried.
package e2etest

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	rollouts "github.com/argoproj/argo-rollouts/pkg/client/clientset/versioned"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

// Where the Argo Rollouts controller lives.
const (
	ControllerNamespace  = "argo-rollouts"
	ControllerDeployment = "argo-rollouts"
	ControllerConfigMap  = "argo-rollouts-config"
	// PluginClusterRole is the name of the plugin's ClusterRole and of its
	// binding.
	PluginClusterRole = "argo-rollouts-kedify-http"
)

// Cluster holds clients of the sandbox's API server, with the administrator's
// rights and without a rate limit. They are safe for concurrent use.
type Cluster struct {
	Config   *rest.Config
	Kube     kubernetes.Interface
	Rollouts rollouts.Interface
	Dynamic  dynamic.Interface

	// name and kubeconfig, a file for kubectl, are empty for the sandbox's own cluster.
	name, kubeconfig string
	mapper           *restmapper.DeferredDiscoveryRESTMapper
}

// Connect returns the clients of the sandbox that the test runs in.
func Connect(t testing.TB) *Cluster {
	t.Helper()
	c, err := connect()
	if err != nil {
		t.Fatalf("connecting to the sandbox: %v", err)
	}
	return c
}

// connect makes the clients once: all tests share their connections.
var connect = sync.OnceValues(func() (*Cluster, error) {
	config, err := cluster.RESTConfig()
	if err != nil {
		return nil, err
	}
	return connectTo(config)
})

// ConnectTo returns the clients of another cluster of that name, which a kubeconfig leads
// to.
func ConnectTo(t testing.TB, name string, kubeconfig []byte) *Cluster {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatalf("the kubeconfig of cluster %s: %v", name, err)
	}
	config.QPS = -1
	c, err := connectTo(config)
	if err != nil {
		t.Fatalf("connecting to cluster %s: %v", name, err)
	}
	c.name, c.kubeconfig = name, filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(c.kubeconfig, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

// environment is that of kubectl for the cluster.
func (c *Cluster) environment() []string {
	if c.kubeconfig == "" {
		return nil // the sandbox's own
	}
	return append(os.Environ(), clientcmd.RecommendedConfigPathEnvVar+"="+c.kubeconfig)
}

func connectTo(config *rest.Config) (*Cluster, error) {
	var err error
	c := &Cluster{Config: config}
	if c.Kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("kubernetes client: %w", err)
	}
	if c.Rollouts, err = rollouts.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("argo rollouts client: %w", err)
	}
	if c.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("dynamic client: %w", err)
	}
	discoverer, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("discovery client: %w", err)
	}
	c.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discoverer))
	return c, nil
}
