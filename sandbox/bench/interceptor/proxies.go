package main

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/proxyworld"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

// proxied is the object whose host the clients request. Proxies other than the
// interceptor know only this object.
const proxied = 7

var (
	floorAddress = netip.AddrPortFrom(cluster.NodeIP, 18081)
	envoyAddress = netip.AddrPortFrom(cluster.NodeIP, 18082)
	nginxAddress = netip.AddrPortFrom(cluster.NodeIP, 18083)
)

// contestant is a proxy with a worker for each of its processors.
type contestant struct {
	name    string
	address netip.AddrPort
	process *gauge.Process
	results []proxyworld.Result // of its rounds
}

// startContestants starts the embedded proxy, a ReverseProxy, an Envoy and, if there is one,
// nginx with its files in dir, each with the given number of workers, and waits until they serve.
func (w *world) startContestants(ctx context.Context, dir string, workers int) (started []*contestant, end func(), err error) {
	end = func() {
		for _, c := range started {
			c.process.End()
		}
	}
	nginx, err := w.nginxCommand(dir, workers)
	if err != nil {
		return nil, end, err
	}
	interceptor, err := w.StartInterceptor(ctx, w.First(workers)...)
	if err != nil {
		return nil, end, err
	}
	started = append(started, &contestant{name: "embedded proxy", address: proxyworld.InterceptorAddress, process: interceptor})
	for _, c := range []struct {
		name    string
		address netip.AddrPort
		command *exec.Cmd
	}{
		{"ReverseProxy", floorAddress, exec.Command(w.floor, "-listen", floorAddress.String(), "-stable", proxyworld.StableAddress.String(), "-canary", proxyworld.CanaryAddress.String())},
		{"Envoy", envoyAddress, w.EnvoyCommand(splittingEnvoy(), workers)},
		{"nginx", nginxAddress, nginx},
	} {
		if c.command == nil {
			continue
		}
		p, err := gauge.Launch(c.command, w.First(workers)...)
		if err != nil {
			return started, end, err
		}
		started = append(started, &contestant{name: c.name, address: c.address, process: p})
	}
	for _, c := range started {
		if err := c.process.Await(ctx, 10*time.Millisecond, "http://"+c.address.String()+"/", proxyworld.Host(proxied)); err != nil {
			return started, end, err
		}
	}
	return started, end, nil
}

// splittingEnvoy configures an Envoy with its defaults and only what a split needs.
func splittingEnvoy() string {
	endpoint := func(a netip.AddrPort) string {
		return fmt.Sprintf("[{lb_endpoints: [{endpoint: {address: {socket_address: {address: %s, port_value: %d}}}}]}]", a.Addr(), a.Port())
	}
	return fmt.Sprintf(`static_resources:
  listeners:
  - name: kedify-proxy
    address: {socket_address: {address: %s, port_value: %d}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: kedify-proxy
          route_config:
            virtual_hosts:
            - name: app
              domains: [%s]
              routes:
              - match: {prefix: /}
                route: {timeout: 0s, weighted_clusters: {clusters: [{name: stable, weight: 80}, {name: canary, weight: 20}]}}
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
  clusters:
  - {name: stable, load_assignment: {cluster_name: stable, endpoints: %s}}
  - {name: canary, load_assignment: {cluster_name: canary, endpoints: %s}}
`, envoyAddress.Addr(), envoyAddress.Port(), proxyworld.Host(proxied), endpoint(proxyworld.StableAddress), endpoint(proxyworld.CanaryAddress))
}
