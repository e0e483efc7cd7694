package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/proxyworld"
)

// nginxCommand returns a command that runs nginx with its files in a directory, nil if there is
// no nginx. As the others do, it keeps connections open indefinitely on both sides. A sandbox
// has no user but root.
func (w *world) nginxCommand(dir string, workers int) (*exec.Cmd, error) {
	if w.nginx == "" {
		return nil, nil
	}
	configuration := fmt.Sprintf(`daemon off;
user root;
worker_processes %d;
pid pid;
error_log stderr warn;
events { worker_connections 1024; }
http {
  access_log off;
  keepalive_requests 1000000000;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  upstream split {
    server %s weight=80;
    server %s weight=20;
    keepalive 256;
    keepalive_requests 1000000000;
  }
  server {
    listen %s;
    server_name %s;
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
`, workers, proxyworld.StableAddress, proxyworld.CanaryAddress, nginxAddress, proxyworld.Host(proxied))
	return exec.Command(w.nginx, "-e", "stderr", "-p", dir, "-c", "conf"), os.WriteFile(filepath.Join(dir, "conf"), []byte(configuration), 0o600)
}
