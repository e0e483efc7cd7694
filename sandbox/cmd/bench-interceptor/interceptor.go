package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

// Where the interceptor listens. Its proxy leaves 8080 to the Envoy that it
// programs.
var (
	interceptorAddress = netip.AddrPortFrom(cluster.NodeIP, 18080)
	fleetAddress       = netip.AddrPortFrom(cluster.NodeIP, 8080)
)

const (
	adminURL   = "http://127.0.0.1:9090"
	metricsURL = "http://127.0.0.1:2223/metrics"
	xdsAddress = "127.0.0.1:5678"
	fleetAdmin = "127.0.0.1:9901"
)

// startInterceptor starts the interceptor, ready to serve. environment is added to
// this process's environment.
func (w *world) startInterceptor(ctx context.Context, on unix.CPUSet, environment ...string) (*process, error) {
	cmd := exec.Command(w.interceptor, "--proxy-port", fmt.Sprint(interceptorAddress.Port()), "--drain-delay", "0s")
	cmd.Env = append(os.Environ(), environment...)
	p, err := launch(cmd, on)
	if err != nil {
		return nil, err
	}
	if err := p.await(ctx, time.Millisecond, adminURL+"/readyz", ""); err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

// startFleet starts an Envoy that is programmed by the interceptor, and waits
// until it serves the last object.
func (w *world) startFleet(ctx context.Context) (*process, error) {
	bootstrap, err := exec.CommandContext(ctx, w.interceptor, "bootstrap", "--xds-address", xdsAddress, "--admin-address", fleetAdmin).Output()
	if err != nil {
		return nil, fmt.Errorf("interceptor bootstrap: %w", err)
	}
	file := filepath.Join(w.dir, "kedify-proxy.yaml")
	if err := os.WriteFile(file, bootstrap, 0o644); err != nil {
		return nil, err
	}
	p, err := launch(envoyCommand(w.envoy, file, 2), w.processors.all)
	if err != nil {
		return nil, err
	}
	if err := p.await(ctx, 10*time.Millisecond, "http://"+fleetAddress.String()+"/", host(w.objects-1)); err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

func envoyCommand(path, configuration string, workers int) *exec.Cmd {
	return exec.Command(path, "-c", configuration, "--concurrency", fmt.Sprint(workers), "--log-level", "error", "--disable-hot-restart")
}
