package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/settings"
)

// listenIPv6 listens on ::1. IPv6 is up to the kernel, and cannot be installed: without
// it the test is skipped.
func listenIPv6(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skipf("this machine has no IPv6: %v", err)
	}
	return l
}

// Over IPv6 alone, a kedify-proxy serves, gets its configuration, and hands over requests
// for which it has no endpoint.
func TestKedifyProxyOverIPv6(t *testing.T) {
	for _, tt := range []struct {
		address string
		open    []string // where it is reached
		closed  []string
	}{
		{"::", []string{"[::1]", "127.0.0.1"}, nil},
		{"::1", []string{"[::1]"}, []string{"127.0.0.1"}},
	} {
		t.Run(tt.address, func(t *testing.T) {
			app := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "app") }))
			_ = app.Listener.Close()
			app.Listener = listenIPv6(t)
			app.Start()
			t.Cleanup(app.Close)

			s := newStack(t, func(o *settings.Settings) { o.KedifyProxy.Address = net.ParseIP(tt.address) })
			s.xds.SetFallback([]netip.AddrPort{netip.AddrPortFrom(netip.IPv6Loopback(), s.o.FallbackPort)})
			s.object("demo")
			host := netip.MustParseAddr(tt.address)
			s.startEnvoy(envoy.BootstrapOptions{
				XDSAddress:   fmt.Sprint("[::1]:", s.o.XDSPort),
				AdminAddress: netip.AddrPortFrom(host, s.envoyAdmin).String(),
			})
			s.connected()

			client := newClient(t, &http.Transport{})
			get := func(at string, port uint16, path string) (string, error) {
				_, text, err := askAt(client, http.MethodGet, fmt.Sprintf("http://%s:%d%s", at, port, path), nil)
				return text, err
			}
			held := make(chan string, 1)
			go func() {
				text, err := get("[::1]", s.o.KedifyProxy.Port, "/")
				held <- fmt.Sprint(text, " ", err)
			}()
			s.envoy.Wait("a request held", func() error {
				if n := s.metric("interceptor_requests_held", "demo"); n != 1 {
					return fmt.Errorf("%v are", n)
				}
				return nil
			})
			s.endpoint("demo", app.Listener.Addr().String())
			if got := <-held; got != "app <nil>" {
				t.Errorf("the request that was held is answered %s", got)
			}
			for _, at := range tt.open {
				s.envoy.Wait("an answer at "+at, func() error {
					text, err := get(at, s.o.KedifyProxy.Port, "/")
					if err == nil && text != "app" {
						err = fmt.Errorf("answered %q", text)
					}
					return err
				})
				if text, err := get(at, s.envoyAdmin, "/ready"); err != nil || text != "LIVE\n" {
					t.Errorf("the admin interface at %s answers %q, %v", at, text, err)
				}
			}
			for _, at := range tt.closed {
				if text, err := get(at, s.o.KedifyProxy.Port, "/"); err == nil {
					t.Errorf("answered %q at %s", text, at)
				}
			}
		})
	}
}
