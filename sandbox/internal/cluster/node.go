package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/image"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/node"
)

// nodeConfig describes the sandbox's node.
func nodeConfig(l Layout, log *slog.Logger) (node.Config, error) {
	s, err := loadSettings(l)
	if err != nil {
		return node.Config{}, err
	}
	config, err := restConfig(l.pki("node.kubeconfig"))
	if err != nil {
		return node.Config{}, err
	}
	images, err := s.images()
	if err != nil {
		return node.Config{}, err
	}
	n := nodeAddresses()
	n.Name, n.Kubernetes, n.StateDir = NodeName, s.Kubernetes, l.Dir
	n.RESTConfig, n.Images, n.Log = config, images, log
	n.ServingCertFile, n.ServingKeyFile, n.ClientCAFile = l.pki("kubelet.crt"), l.pki("kubelet.key"), l.pki("ca.crt")
	return n, nil
}

// nodeAddresses are the addresses of the node.
func nodeAddresses() node.Config {
	return node.Config{
		NodeIP: NodeIP, PodCIDR: PodCIDR, ServiceCIDR: ServiceCIDR, LoadBalancerCIDR: LoadBalancerCIDR, ClusterDNS: ClusterDNS,
		LocalAddresses: []netip.Addr{ReleasesIP}, Hosts: map[string]netip.Addr{ReleasesHost: ReleasesIP},
	}
}

// images is the table of the images that the add-ons bring.
func (s settings) images() (image.Table, error) {
	var table image.Table
	for _, a := range s.Addons {
		for _, entry := range a.Images {
			if err := table.Add(entry); err != nil {
				return table, fmt.Errorf("images of the add-on %s: %w", a.Name, err)
			}
		}
	}
	return table, nil
}

// NodeMain runs the node, which the daemon starts as a process of its own so
// that it can be killed like any component. It returns the exit code.
func NodeMain(l Layout) int {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	config, err := nodeConfig(l, log)
	if err == nil {
		err = node.Run(ctx, config)
	}
	if err != nil {
		log.Error(err.Error())
		return 1
	}
	return 0
}
