package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/xds"
)

// The admin port, and the command, tell what each kedify-proxy has.
func TestEnvoysOfARunningInterceptor(t *testing.T) {
	s := newStack(t, nil)
	admin := fmt.Sprint("http://127.0.0.1:", s.o.AdminPort)
	if out, err := invoke("envoys", "--admin", admin, "-o", "json"); err != nil || strings.Join(strings.Fields(out), "") != "[]" {
		t.Errorf("without a kedify-proxy: %q (%v)", out, err)
	}
	app := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer app.Close()
	s.object("demo")
	s.endpoint("demo", app.Listener.Addr().String())
	s.object("other")
	s.startEnvoy(envoy.BootstrapOptions{
		XDSAddress: fmt.Sprint("127.0.0.1:", s.o.XDSPort), AdminAddress: fmt.Sprint("127.0.0.1:", s.envoyAdmin), Namespaces: []string{"demo"},
	})
	s.connected()
	var list xds.EnvoyList
	s.envoy.Wait("all acknowledged", func() error {
		out, err := invoke("envoys", "--admin", admin, "-o", "json")
		if err != nil {
			return err
		}
		list = nil
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			return err
		}
		if len(list) != 1 || len(list[0].Types) < 4 || list[0].Unacknowledged != 0 || list[0].Types[2].Acknowledged == nil {
			return fmt.Errorf("it says %s", out)
		}
		return nil
	})
	if is := list[0]; is.Objects != 1 || strings.Join(is.Namespaces, " ") != "demo" || is.Protocol != "delta" || !strings.HasPrefix(is.Address, "127.0.0.1:") {
		t.Errorf("it is %+v", is)
	}
	out, err := invoke("envoys", "--admin", admin)
	if lines := strings.Split(strings.TrimSpace(out), "\n"); err != nil || len(lines) != 2 || !strings.HasPrefix(lines[0], "ENVOY") ||
		!strings.Contains(lines[1], "  demo  ") || !strings.Contains(lines[1], list[0].Types[2].Acknowledged.Version) {
		t.Errorf("the table is (%v)\n%s", err, out)
	}
	// The admin port still serves its other lists.
	if out, err := invoke("routes", "--admin", admin); err != nil || !strings.Contains(out, "demo") {
		t.Errorf("routes: %q (%v)", out, err)
	}
}
