// Package plugintest runs plugins as the Argo Rollouts controller does, for their tests.
package plugintest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/argoproj/argo-rollouts/rollout/trafficrouting/plugin/rpc"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
)

// Build builds the program of the working directory into a file, as version v1.2.3 of
// commit abc.
func Build(file string) error {
	build := exec.Command("go", "build", "-ldflags", "-X main.version=v1.2.3 -X main.commit=abc", "-o", file, ".")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("go build: %w", err)
	}
	return nil
}

// Client starts a plugin as the controller does (rollout/trafficrouting/plugin/client
// of argo-rollouts v1.10.1).
func Client(path string, stderr io.Writer, args ...string) *plugin.Client {
	return plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig: plugin.HandshakeConfig{ProtocolVersion: 1, MagicCookieKey: "ARGO_ROLLOUTS_RPC_PLUGIN", MagicCookieValue: "trafficrouter"},
		Plugins:         map[string]plugin.Plugin{"RpcTrafficRouterPlugin": &rpc.RpcTrafficRouterPlugin{}},
		Cmd:             exec.Command(path, args...),
		Managed:         true,
		Stderr:          stderr,
		Logger:          hclog.NewNullLogger(),
	})
}

// Dispense returns the router of a plugin.
func Dispense(c *plugin.Client) (rpc.TrafficRouterPlugin, error) {
	protocol, err := c.Client()
	if err != nil {
		return nil, err
	}
	router, err := protocol.Dispense("RpcTrafficRouterPlugin")
	if err != nil {
		return nil, err
	}
	return router.(rpc.TrafficRouterPlugin), nil
}

// Start runs a plugin with a kubeconfig of this text until the test ends, and returns
// its router, which is initialised, and what it writes to stderr.
func Start(t *testing.T, path, kubeconfig string, args ...string) (rpc.TrafficRouterPlugin, *Output) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	stderr := &Output{}
	c := Client(path, stderr, args...)
	t.Cleanup(c.Kill)
	t.Setenv("KUBECONFIG", file) // go-plugin hands on the environment
	router, err := Dispense(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := router.InitPlugin(); err.HasError() {
		t.Fatalf("InitPlugin: %s", err)
	}
	return router, stderr
}

// Output collects what a plugin writes. It is safe for concurrent use.
type Output struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write adds text.
func (o *Output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(text)
}

// String returns all of the text.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
