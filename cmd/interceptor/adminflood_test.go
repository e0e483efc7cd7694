package main

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
)

// Clients that fill the limits of a kedify-proxy's read-only port, with connections, with
// dumps or with both, do not make the pod unready: the kubelet's port is another. Dumps at
// a time are bounded, those that come again get through, and so does preStop.
func TestFloodsOfTheReadOnlyPort(t *testing.T) {
	s := newStack(t, nil)
	s.commit()
	s.startEnvoy(envoy.BootstrapOptions{MaxConnections: 1})
	s.connected()
	client := newClient(t, &http.Transport{DisableKeepAlives: true})
	ready := func(want string) {
		t.Helper()
		for _, path := range []string{"/ready", "/config_dump"} {
			code, text, err := askAt(client, http.MethodGet, fmt.Sprint("http://127.0.0.1:", s.envoyReady, path), nil)
			if got := fmt.Sprint(code, " ", strings.TrimSpace(text)); err != nil || path == "/ready" && got != want || path != "/ready" && code != http.StatusForbidden {
				t.Errorf("GET %s at the kubelet's port is answered %s, %v; want %s", path, got, err, want)
			}
		}
	}
	ready("200 LIVE")

	var floods sync.WaitGroup
	var over atomic.Bool
	var refused atomic.Int64
	for range 16 {
		floods.Go(func() {
			connection := newClient(t, &http.Transport{})
			for !over.Load() {
				response, err := connection.Get(fmt.Sprint("http://127.0.0.1:", s.envoyAdmin, "/config_dump"))
				if err != nil {
					continue // above the limit of connections
				}
				_ = response.Body.Close()
				switch {
				case response.StatusCode == http.StatusServiceUnavailable && response.Header.Get("Retry-After") != "":
					refused.Add(1)
				case response.StatusCode != http.StatusOK:
					t.Errorf("a dump is answered %s with %v", response.Status, response.Header)
					return
				}
			}
		})
	}
	s.envoy.Wait("the limit of dumps", func() error {
		ready("200 LIVE")
		if refused.Load() < 100 {
			return fmt.Errorf("%d dumps were refused", refused.Load())
		}
		return nil
	})
	dump := func() error {
		code, _, err := askAt(client, http.MethodGet, fmt.Sprint("http://127.0.0.1:", s.envoyAdmin, "/config_dump?resource=dynamic_listeners"), nil)
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("answered %d", code)
		}
		return err
	}
	s.envoy.Wait("a dump for a client that comes again", dump)

	fill := func() {
		for range 300 {
			c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", s.envoyAdmin))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
		}
	}
	fill()
	s.envoy.Wait("the limit of connections", func() error {
		ready("200 LIVE")
		if n := s.envoy.Stat("connection_limit.kedify-proxy-admin.limited_connections"); n < 50 {
			return fmt.Errorf("%d connections were closed", n)
		}
		return nil
	})
	over.Store(true)
	floods.Wait()
	fill()
	s.envoy.Wait("a dump once the connections that nobody uses are closed", dump)
	out, err := invoke("drain", "--admin", fmt.Sprint("http://127.0.0.1:", s.envoyLoopback), "--delay=0s", "--timeout=30s")
	if err != nil || !strings.Contains(out, "no connection is left") {
		t.Errorf("drained: %v\n%s", err, out)
	}
	ready("503 DRAINING")
}
