package cluster

import (
	"context"
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
	images := image.Default(s.Controller, l.Demo())
	if !s.Bare {
		if err := addImages(ctx, &images, l, s); err != nil {
			return node.Config{}, err
		}
	}
	return node.Config{
		Name:            NodeName,
		RESTConfig:      config,
		StateDir:        l.Dir,
		NodeIP:          NodeIP,
		PodCIDR:         PodCIDR,
		ServiceCIDR:     ServiceCIDR,
		ClusterDNS:      ClusterDNS,
		ServingCertFile: l.pki("kubelet.crt"),
		ServingKeyFile:  l.pki("kubelet.key"),
		ClientCAFile:    l.pki("ca.crt"),
		Images:          images,
		Hosts:           map[string]netip.Addr{ReleasesHost: NodeIP},
		Log:             log,
	}, nil
}

// addImages adds the images of the project's programs, and Envoy's if there is
// one.
func addImages(ctx context.Context, images *image.Table, l Layout, s settings) error {
	if err := images.Add(image.Plugin(l.Plugin(), l.Program())); err != nil {
		return err
	}
	if err := images.Add(image.Interceptor(l.Interceptor())); err != nil {
		return err
	}
	if s.Envoy == "" {
		return nil
	}
	entry, err := image.Envoy(ctx, s.Envoy)
	if err != nil {
		return err
	}
	return images.Add(entry)
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
