package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
)

// A kedify-proxy that is short of memory refuses requests of clients, but its read-only
// port still answers.
func TestKedifyProxyRefusesRequestsWhileMemoryIsShort(t *testing.T) {
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "app") }))
	t.Cleanup(app.Close)
	for name, tt := range map[string]struct {
		heap uint64
		code int
	}{
		"short": {1 << 20, http.StatusServiceUnavailable}, // less than any Envoy has in use
		"ample": {64 << 30, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStack(t, nil)
			s.object("demo")
			s.endpoint("demo", app.Listener.Addr().String())
			s.startEnvoy(envoy.BootstrapOptions{MaxHeap: tt.heap})
			s.connected()
			client := newClient(t, &http.Transport{DisableKeepAlives: true})
			s.envoy.Wait("the memory in use", func() error {
				if s.envoy.Stat("overload.envoy.resource_monitors.fixed_heap.pressure") == 0 && name == "short" {
					return fmt.Errorf("it is not known")
				}
				return nil
			})
			s.envoy.Wait(fmt.Sprint("the answer ", tt.code), func() error {
				code, text, err := ask(client, "http", s.o.KedifyProxy.Port, http.MethodGet, nil)
				if err == nil && code != tt.code {
					err = fmt.Errorf("answered %d %q", code, text)
				}
				return err
			})
			response, err := client.Get(fmt.Sprint("http://127.0.0.1:", s.o.KedifyProxy.Port))
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if again := response.Header.Get("Retry-After"); (again != "") != (name == "short") {
				t.Errorf("answered %s with Retry-After %q", response.Status, again)
			}
			for path, want := range map[string]string{"/ready": "LIVE", "/stats?filter=server.live": "server.live: 1"} {
				code, text, err := askAt(client, http.MethodGet, fmt.Sprint("http://127.0.0.1:", s.envoyAdmin, path), nil)
				if err != nil || code != http.StatusOK || !strings.Contains(text, want) {
					t.Errorf("GET %s is answered %d %q, %v", path, code, text, err)
				}
			}
		})
	}
}
