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
func nodeConfig(ctx context.Context, l Layout, log *slog.Logger) (node.Config, error) {
	s, err := loadSettings(l)
	if err != nil {
		return node.Config{}, err
	}
	config, err := restConfig(l.pki("node.kubeconfig"))
	if err != nil {
		return node.Config{}, err
	}
	images, err := s.images(ctx)
	if err != nil {
		return node.Config{}, err
	}
	return node.Config{
		Name:             NodeName,
		Kubernetes:       s.Kubernetes,
		RESTConfig:       config,
		StateDir:         l.Dir,
		NodeIP:           NodeIP,
		PodCIDR:          PodCIDR,
		ServiceCIDR:      ServiceCIDR,
		LoadBalancerCIDR: LoadBalancerCIDR,
		LocalAddresses:   []netip.Addr{ReleasesIP},
		ClusterDNS:       ClusterDNS,
		ServingCertFile:  l.pki("kubelet.crt"),
		ServingKeyFile:   l.pki("kubelet.key"),
		ClientCAFile:     l.pki("ca.crt"),
		Images:           images,
		Hosts:            map[string]netip.Addr{ReleasesHost: ReleasesIP},
		Log:              log,
	}, nil
}

// images is the table of the images that the add-ons bring.
func (s settings) images(ctx context.Context) (image.Table, error) {
	var table image.Table
	installed, err := s.installed()
	if err != nil {
		return table, err
	}
	for _, a := range installed {
		if a.Images == nil {
			continue
		}
		entries, err := a.Images(ctx, s.paths(a.Name))
		if err != nil {
			return table, fmt.Errorf("images of the add-on %s: %w", a.Name, err)
		}
		for _, entry := range entries {
			if err := table.Add(entry); err != nil {
				return table, err
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
	config, err := nodeConfig(ctx, l, log)
	if err == nil {
		err = node.Run(ctx, config)
	}
	if err != nil {
		log.Error(err.Error())
		return 1
	}
	return 0
}
