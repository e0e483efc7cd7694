package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
)

// A client that reaches a kedify-proxy's read-only port can look, and can change nothing:
// the admin interface, which can, is on the loopback address alone.
func TestEverybodyMayLookAtKedifyProxyAndNoMore(t *testing.T) {
	s := newStack(t, nil)
	s.commit()
	s.startEnvoy(envoy.BootstrapOptions{MaxConnections: 1})
	s.connected()
	client := newClient(t, &http.Transport{DisableKeepAlives: true})
	answer := func(method, path string) string {
		t.Helper()
		r, err := http.NewRequest(method, "http://kedify-proxy", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.URL.Host, r.URL.Opaque = fmt.Sprint("127.0.0.1:", s.envoyAdmin), path
		response, err := client.Do(r)
		if err != nil {
			return err.Error()
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return fmt.Sprintf("%d %s %v", response.StatusCode, body, err)
	}
	looks := map[string]string{
		"/ready":                    "LIVE",
		"/stats?filter=server.live": "server.live: 1",
		"/stats/prometheus":         "envoy_server_live{",
		"/config_dump":              `"dynamic_listeners"`,
		"/config_dump?resource=dynamic_listeners": `"name": "kedify-proxy"`,
		"/clusters":    "xds_cluster::",
		"/server_info": `"state": "LIVE"`,
	}
	look := func() {
		t.Helper()
		for path, want := range looks {
			if got := answer(http.MethodGet, path); !strings.HasPrefix(got, "200 ") || !strings.Contains(got, want) {
				t.Errorf("GET %s is answered %.300s; want 200 and %s", path, got, want)
			}
		}
	}
	look()

	for _, refused := range []struct{ method, path string }{
		{http.MethodPost, "/ready"}, {http.MethodHead, "/ready"}, {http.MethodPost, "/stats"}, {http.MethodPut, "/config_dump"},
		{http.MethodGet, "/"}, {http.MethodGet, "/help"}, {http.MethodGet, "/quitquitquit"}, {http.MethodGet, "/logging"},
		{http.MethodGet, "/ready/"}, {http.MethodGet, "/READY"}, {http.MethodGet, "/stats/recentlookups"},
		{http.MethodPost, "/ready/../quitquitquit"}, {http.MethodPost, "/stats/%2e%2e/quitquitquit"}, {http.MethodPost, "//quitquitquit"},
		{http.MethodPost, "/logging?level=off"}, {http.MethodPost, "/reset_counters"}, {http.MethodPost, "/healthcheck/fail"},
		{http.MethodPost, "/drain_listeners"}, {http.MethodPost, "/runtime_modify?a=b"}, {http.MethodPost, "/cpuprofiler?enable=y"},
		{http.MethodPost, "/quitquitquit"},
	} {
		if got := answer(refused.method, refused.path); !strings.HasPrefix(got, "403 ") {
			t.Errorf("%s %s is answered %.300s; want 403", refused.method, refused.path, got)
		}
	}

	// 127.0.0.2 is an address of this machine, but not that of the admin interface.
	if c, err := net.Dial("tcp", fmt.Sprint("127.0.0.2:", s.envoyLoopback)); err == nil {
		_ = c.Close()
		t.Error("the admin interface takes connections at another address than 127.0.0.1")
	}

	// This Envoy takes one client connection; the read-only port does not count.
	c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", s.o.KedifyProxy.Port))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	s.envoy.Wait("the client", func() error {
		if n := s.envoy.Stat(activeStat); n != 1 {
			return fmt.Errorf("%d connections of clients", n)
		}
		return nil
	})
	next, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", s.o.KedifyProxy.Port))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = next.Close() }()
	if err := next.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	var timeout net.Error
	if n, err := next.Read(make([]byte, 1)); err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("another client's connection is open: read %d bytes, %v", n, err)
	}
	look()
	_ = c.Close()

	out, err := invoke("drain", "--admin", fmt.Sprint("http://127.0.0.1:", s.envoyLoopback), "--delay=0s", "--timeout=30s")
	if err != nil || !strings.Contains(out, "no connection is left") {
		t.Errorf("drained: %v\n%s", err, out)
	}
	if got := answer(http.MethodGet, "/ready"); !strings.HasPrefix(got, "503 DRAINING") {
		t.Errorf("while it drains /ready is answered %s; want 503", got)
	}
}
