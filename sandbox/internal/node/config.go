// Package node is the sandbox's node: it registers itself with the API server and
// runs the pods scheduled to it as plain processes, each pod in a network
// namespace and each container in a mount namespace of its own. It needs no
// container runtime and no root: the creator of a user namespace may do all of
// this inside of it.
//
// The node leaves out what a kubelet does and the sandbox's pods do not need. A pod
// that asks for it stays Pending with an Event that says so; fields_test.go lists
// all fields of a pod.
package node

import (
	"errors"
	"log/slog"
	"net/netip"
	"path/filepath"

	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/image"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/podnet"
)

// APIPort is the port of the node's own API, the kubelet's.
const APIPort = 10250

// Config is what a node needs to know.
type Config struct {
	// Name of the Node object.
	Name string
	// Kubernetes is the release that the node reports as its own, such as
	// "v1.34.10".
	Kubernetes string
	// RESTConfig reaches the API server with the rights of an administrator.
	RESTConfig *rest.Config
	// StateDir holds pods/ (volumes, removed with the pod) and logs/pods/.
	StateDir string
	// NodeIP is the node's address on the bridge: the pods' gateway, and where
	// the kubelet API listens.
	NodeIP netip.Addr
	// PodCIDR contains NodeIP; pods get its addresses from the 256th on.
	PodCIDR netip.Prefix
	// ServiceCIDR is the range of ClusterIPs, local to the node.
	ServiceCIDR netip.Prefix
	// LoadBalancerCIDR is the range of addresses of Services of type LoadBalancer,
	// local to the node.
	LoadBalancerCIDR netip.Prefix
	// LocalAddresses are further addresses that the node's network namespace has,
	// for programs beside the node.
	LocalAddresses []netip.Addr
	// ClusterDNS is the address in ServiceCIDR that the cluster DNS listens on.
	ClusterDNS netip.Addr
	// ServingCertFile and ServingKeyFile are the kubelet API's certificate and key,
	// for NodeIP.
	ServingCertFile, ServingKeyFile string
	// ClientCAFile has the CA that signs the certificates of the kubelet API's
	// clients.
	ClientCAFile string
	// Images says which program runs for an image.
	Images image.Table
	// Hosts are names that the cluster DNS answers besides those of Services.
	Hosts map[string]netip.Addr
	// Log is where the node reports.
	Log *slog.Logger
}

func (c Config) check() error {
	switch {
	case c.Name == "":
		return errors.New("node: the configuration has no name")
	case c.RESTConfig == nil:
		return errors.New("node: the configuration has no RESTConfig")
	case !filepath.IsAbs(c.StateDir):
		return errors.New("node: StateDir must be an absolute path")
	case !c.ServiceCIDR.Contains(c.ClusterDNS):
		return errors.New("node: ClusterDNS must be in ServiceCIDR")
	case !c.LoadBalancerCIDR.IsValid() || c.LoadBalancerCIDR.Overlaps(c.ServiceCIDR) || c.LoadBalancerCIDR.Overlaps(c.PodCIDR):
		return errors.New("node: LoadBalancerCIDR must be a range apart from ServiceCIDR and PodCIDR")
	case c.Log == nil:
		return errors.New("node: the configuration has no Log")
	}
	return nil
}

// podsDir holds a directory for each pod, by UID.
func (c Config) podsDir() string { return filepath.Join(c.StateDir, "pods") }

// logsDir holds a directory for each pod, namespace_name_uid.
func (c Config) logsDir() string { return filepath.Join(c.StateDir, "logs", "pods") }

// firstPodIP is where the pods' addresses begin: the addresses before it belong to the
// node and to programs beside it.
func (c Config) firstPodIP() netip.Addr {
	ip := c.PodCIDR.Masked().Addr()
	for range 256 {
		ip = ip.Next()
	}
	return ip
}

// SetUpNetwork prepares the network namespace that it is called in for the node:
// bridge, NodeIP, LocalAddresses and the ranges of Services. The API server can
// listen on NodeIP afterwards. Calling it again changes nothing.
func SetUpNetwork(cfg Config) error {
	local := []netip.Prefix{cfg.ServiceCIDR, cfg.LoadBalancerCIDR}
	for _, ip := range cfg.LocalAddresses {
		local = append(local, netip.PrefixFrom(ip, ip.BitLen()))
	}
	return podnet.SetUpNode(cfg.NodeIP, cfg.PodCIDR, local...)
}
