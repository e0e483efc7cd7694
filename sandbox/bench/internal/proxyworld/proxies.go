package proxyworld

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
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

// StartInterceptor starts the interceptor on some processors, on all if none is named, ready
// to serve.
func (w *World) StartInterceptor(ctx context.Context, on ...int) (*gauge.Process, error) {
	cmd := exec.Command(w.Interceptor, "--proxy-port", fmt.Sprint(InterceptorAddress.Port()), "--drain-delay", "0s")
	p, err := gauge.Launch(cmd, on...)
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
func (w *World) StartEnvoy(ctx context.Context, workers int, loadReports bool) (*gauge.Process, error) {
	text, err := exec.CommandContext(ctx, w.Interceptor, "bootstrap", "--xds-address", xdsAddress, "--admin-address", fleetAdmin).Output()
	if err != nil {
		return nil, fmt.Errorf("interceptor bootstrap: %w", err)
	}
	if !loadReports {
		if text, err = withoutLoadReports(text); err != nil {
			return nil, err
		}
	}
	p, err := gauge.Launch(w.EnvoyCommand(string(text), workers), w.First(workers)...)
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

// EnvoyCommand runs an Envoy with a configuration.
func (w *World) EnvoyCommand(configuration string, workers int) *exec.Cmd {
	return exec.Command(w.Envoy, "--config-yaml", configuration, "--concurrency", fmt.Sprint(workers), "--log-level", "error", "--disable-hot-restart")
}
