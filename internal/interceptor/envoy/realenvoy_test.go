package envoy

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoytest"
)

// validateEnvoy has Envoy itself validate a configuration.
func validateEnvoy(t testing.TB, config []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "envoy.yaml")
	if err := os.WriteFile(path, config, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(envoytest.Path(t), "--mode", "validate", "--log-level", "warn", "-c", path).CombinedOutput()
	if err != nil {
		t.Fatalf("Envoy refuses it: %v\n%s\n%s", err, out, config)
	}
}

// startEnvoy runs an Envoy with a configuration whose ports are all 0, ends it with
// the test, and returns the address of its HTTP listener.
func startEnvoy(t testing.TB, b *bootstrapv3.Bootstrap) string {
	t.Helper()
	_, address := runEnvoy(t, b)
	return address
}

// runEnvoy does what startEnvoy does, and returns the Envoy as well.
func runEnvoy(t testing.TB, b *bootstrapv3.Bootstrap, arguments ...string) (*envoytest.Envoy, string) {
	t.Helper()
	if err := b.ValidateAll(); err != nil {
		t.Fatal(err)
	}
	config, err := protojson.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	e := envoytest.Start(t, config, append([]string{"--log-level", "error"}, arguments...)...)
	e.WaitReady()
	var listeners struct {
		ListenerStatuses []struct {
			Name         string `json:"name"`
			LocalAddress struct {
				SocketAddress struct {
					PortValue int `json:"port_value"`
				} `json:"socket_address"`
			} `json:"local_address"`
		} `json:"listener_statuses"`
	}
	text, err := e.Get("/listeners?format=json")
	if err == nil {
		err = json.Unmarshal([]byte(text), &listeners)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range listeners.ListenerStatuses {
		if l.Name == ListenerName {
			return e, fmt.Sprintf("127.0.0.1:%d", l.LocalAddress.SocketAddress.PortValue)
		}
	}
	t.Fatalf("no listener %s in %s", ListenerName, text)
	return nil, ""
}
