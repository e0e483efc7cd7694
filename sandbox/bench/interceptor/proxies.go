package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/loadgen"
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
	process *proxyworld.Process
	results []*loadgen.Result // of its rounds
}

// The names of the proxies, which the bars refer to.
const (
	embedded     = "embedded proxy"
	reverseProxy = "ReverseProxy"
	envoyName    = "Envoy"
	nginxName    = "nginx"
)

// startContestants starts all proxies, each with the given number of workers, and
// waits until they serve.
func (w *world) startContestants(ctx context.Context, workers int) (started []*contestant, end func(), err error) {
	end = func() {
		for _, c := range started {
			c.process.End()
		}
	}
	interceptor, err := w.StartInterceptor(ctx, w.Processors.Proxy(workers), maxProcs(workers))
	if err != nil {
		return nil, end, err
	}
	started = append(started, &contestant{name: embedded, address: proxyworld.InterceptorAddress, process: interceptor})
	if err := interceptor.Await(ctx, 10*time.Millisecond, "http://"+proxyworld.InterceptorAddress.String()+"/", proxyworld.Host(proxied)); err != nil {
		return started, end, err
	}
	for _, c := range []struct {
		name    string
		address netip.AddrPort
		command func(workers int) (*exec.Cmd, error)
	}{
		{reverseProxy, floorAddress, w.floorContestant},
		{envoyName, envoyAddress, w.envoyContestant},
		{nginxName, nginxAddress, w.nginxContestant},
	} {
		cmd, err := c.command(workers)
		if err != nil {
			return started, end, fmt.Errorf("%s: %w", c.name, err)
		}
		if cmd == nil {
			continue
		}
		p, err := proxyworld.Launch(cmd, w.Processors.Proxy(workers))
		if err == nil {
			started = append(started, &contestant{name: c.name, address: c.address, process: p})
			err = p.Await(ctx, 10*time.Millisecond, "http://"+c.address.String()+"/", proxyworld.Host(proxied))
		}
		if err != nil && c.name == nginxName {
			gauge.Say("nginx does not run here; going on without it: %v", err)
			p.End()
			started = started[:len(started)-1]
			continue
		}
		if err != nil {
			return started, end, err
		}
	}
	return started, end, nil
}

func maxProcs(workers int) string { return fmt.Sprint("GOMAXPROCS=", workers) }

func (w *world) floorContestant(workers int) (*exec.Cmd, error) {
	cmd := exec.Command(w.floor, "-listen", floorAddress.String(), "-stable", proxyworld.StableAddress.String(), "-canary", proxyworld.CanaryAddress.String())
	cmd.Env = append(os.Environ(), maxProcs(workers))
	return cmd, nil
}

// envoyContestant is Envoy with its defaults and only what a split needs.
func (w *world) envoyContestant(workers int) (*exec.Cmd, error) {
	const format = `static_resources:
  listeners:
  - name: kedify-proxy
    address: {socket_address: {address: %[1]s, port_value: %[2]d}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: kedify-proxy
          route_config:
            virtual_hosts:
            - name: app
              domains: [%[3]s]
              routes:
              - match: {prefix: /}
                route: {timeout: 0s, weighted_clusters: {clusters: [{name: stable, weight: 80}, {name: canary, weight: 20}]}}
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
  clusters:
  - name: stable
    load_assignment: {cluster_name: stable, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: %[4]s, port_value: %[5]d}}}}]}]}
  - name: canary
    load_assignment: {cluster_name: canary, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: %[6]s, port_value: %[7]d}}}}]}]}
`
	file := filepath.Join(w.Dir, "envoy.yaml")
	text := fmt.Sprintf(format, envoyAddress.Addr(), envoyAddress.Port(), proxyworld.Host(proxied),
		proxyworld.StableAddress.Addr(), proxyworld.StableAddress.Port(), proxyworld.CanaryAddress.Addr(), proxyworld.CanaryAddress.Port())
	return proxyworld.EnvoyCommand(w.envoy, file, workers), os.WriteFile(file, []byte(text), 0o644)
}

// nginxContestant keeps connections open indefinitely on both sides, as the others
// do. It returns nil when there is no nginx.
func (w *world) nginxContestant(workers int) (*exec.Cmd, error) {
	if w.nginx == "" {
		gauge.Say("there is no nginx here; going on without it")
		return nil, nil
	}
	const format = `daemon off;
%[6]sworker_processes %[7]d;
pid %[1]s/pid;
error_log stderr warn;
events { worker_connections 1024; }
http {
  access_log off;
  keepalive_requests 1000000000;
  client_body_temp_path %[1]s/body;
  proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
  upstream split {
    server %[2]s weight=80;
    server %[3]s weight=20;
    keepalive 256;
    keepalive_requests 1000000000;
  }
  server {
    listen %[4]s;
    server_name %[5]s;
    location / {
      proxy_pass http://split;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $host;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_set_header X-Forwarded-Host $host;
      proxy_set_header X-Forwarded-Proto $scheme;
    }
  }
}
`
	dir := filepath.Join(w.Dir, "nginx")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	user := ""
	if os.Geteuid() == 0 {
		user = "user root;\n" // a sandbox has no other user
	}
	text := fmt.Sprintf(format, dir, proxyworld.StableAddress, proxyworld.CanaryAddress, nginxAddress, proxyworld.Host(proxied), user, workers)
	file := filepath.Join(dir, "nginx.conf")
	cmd := exec.Command(w.nginx, "-e", "stderr", "-p", dir, "-c", file)
	// An nginx that was unpacked and not installed has its libraries beside it.
	if libraries := filepath.Join(filepath.Dir(w.nginx), "..", "lib", "x86_64-linux-gnu"); isDirectory(libraries) {
		cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+libraries)
	}
	return cmd, os.WriteFile(file, []byte(text), 0o644)
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
