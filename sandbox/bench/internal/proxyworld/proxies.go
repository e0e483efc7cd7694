package proxyworld

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

// InterceptorAddress and EnvoyAddress take requests. The interceptor leaves 8080 to
// the Envoy that it programs.
var (
	InterceptorAddress = netip.AddrPortFrom(cluster.NodeIP, 18080)
	EnvoyAddress       = netip.AddrPortFrom(cluster.NodeIP, 8080)
)

const (
	adminURL = "http://127.0.0.1:9090"
	// MetricsURL is where the interceptor's metrics are.
	MetricsURL = "http://127.0.0.1:2223/metrics"
	xdsAddress = "127.0.0.1:5678"
	fleetAdmin = "127.0.0.1:9901"
)

// StartInterceptor starts the interceptor, ready to serve. environment is added to
// this process's environment.
func (w *World) StartInterceptor(ctx context.Context, on unix.CPUSet, environment ...string) (*Process, error) {
	cmd := exec.Command(w.Interceptor, "--proxy-port", fmt.Sprint(InterceptorAddress.Port()), "--drain-delay", "0s")
	cmd.Env = append(os.Environ(), environment...)
	p, err := Launch(cmd, on)
	if err != nil {
		return nil, err
	}
	if err := p.Await(ctx, time.Millisecond, adminURL+"/readyz", ""); err != nil {
		p.End()
		return nil, err
	}
	return p, nil
}

// StartEnvoy starts an Envoy that is programmed by the interceptor, with a processor for
// each of its workers, and waits until it serves the last object. Without loadReports, it
// lacks what the bootstrap has for them.
func (w *World) StartEnvoy(ctx context.Context, workers int, loadReports bool) (*Process, error) {
	bootstrap, err := exec.CommandContext(ctx, w.Interceptor, "bootstrap", "--xds-address", xdsAddress, "--admin-address", fleetAdmin).Output()
	if err != nil {
		return nil, fmt.Errorf("interceptor bootstrap: %w", err)
	}
	if !loadReports {
		if bootstrap, err = withoutLoadReports(bootstrap); err != nil {
			return nil, err
		}
	}
	file := filepath.Join(w.Dir, "kedify-proxy.yaml")
	if err := os.WriteFile(file, bootstrap, 0o644); err != nil {
		return nil, err
	}
	p, err := Launch(EnvoyCommand(w.Envoy, file, workers), w.Processors.Proxy(workers))
	if err != nil {
		return nil, err
	}
	if err := p.Await(ctx, 10*time.Millisecond, "http://"+EnvoyAddress.String()+"/", Host(w.Objects-1)); err != nil {
		p.End()
		return nil, err
	}
	return p, nil
}

func withoutLoadReports(bootstrap []byte) ([]byte, error) {
	var all map[string]any
	if err := yaml.Unmarshal(bootstrap, &all); err != nil {
		return nil, err
	}
	path := []string{"cluster_manager", "load_stats_config"}
	if _, found, err := unstructured.NestedFieldNoCopy(all, path...); !found || err != nil {
		return nil, errors.New("the bootstrap has no load_stats_config to leave out")
	}
	unstructured.RemoveNestedField(all, path...)
	return yaml.Marshal(all)
}

// EnvoyCommand runs an Envoy with a configuration in a file.
func EnvoyCommand(path, configuration string, workers int) *exec.Cmd {
	return exec.Command(path, "-c", configuration, "--concurrency", fmt.Sprint(workers), "--log-level", "error", "--disable-hot-restart")
}
