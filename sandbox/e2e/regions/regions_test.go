package regions

import (
	"fmt"
	"net"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/region"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// Names of the clusters in presets.
const (
	home = "home" // the sandbox's own
	eu   = "eu"
)

// world is a namespace of one name in both clusters, for one test.
type world struct {
	t        *testing.T
	home, eu *e2etest.Namespace
}

func newWorld(t *testing.T) *world {
	t.Helper()
	n := e2etest.NewNamespace(t)
	return &world{t: t, home: n, eu: e2etest.NewNamespaceOf(t, connect(t, n.Cluster), n.Name)}
}

// connect returns the clients of the second cluster.
func connect(t *testing.T, own *e2etest.Cluster) *e2etest.Cluster {
	t.Helper()
	secret, err := own.Kube.CoreV1().Secrets(region.Namespace).Get(t.Context(), region.Kubeconfigs, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return e2etest.ConnectTo(t, eu, secret.Data[region.Admin])
}

// both does the same in both clusters.
func (w *world) both(do func(n *e2etest.Namespace)) {
	do(w.home)
	do(w.eu)
}

// addresses are where the API servers answer, by cluster: host and port.
type addresses map[string]string

func apiServers() addresses {
	return addresses{
		home: strings.TrimPrefix(cluster.APIServerURL, "https://"),
		eu:   net.JoinHostPort(region.Host, region.Port),
	}
}

// meet makes, in both clusters, a preset for steps that wait for the Rollouts of both, with
// the Secrets that lead there, and returns the preset's name. more is YAML under rollouts.
func (w *world) meet(more string) string {
	w.t.Helper()
	at, name := apiServers(), w.home.Name // of all tests, so it is the test's own
	w.both(func(n *e2etest.Namespace) {
		var clusters []string
		for _, c := range []string{home, eu} {
			secret := name + "-" + c
			n.Apply(kubeconfigSecret(secret, w.tokenKubeconfig(c, at[c], w.token(c))))
			clusters = append(clusters, fmt.Sprintf("{name: %s, secret: %s}", c, secret))
		}
		n.Apply(preset(name, []string{at[home], at[eu]}, clusters, more))
	})
	return name
}

// preset returns the ConfigMap of a preset for steps that wait for clusters. more is YAML
// under rollouts.
func preset(name string, hosts, clusters []string, more string) string {
	return e2etest.Preset(name, fmt.Sprintf(`
hosts: ["%s"]
locked: [rollouts]
defaults:
  interval: 11s
  rollouts:
    clusters: [%s]
%s`, strings.Join(hosts, `", "`), strings.Join(clusters, ", "), e2etest.Indent(4, more)))
}
