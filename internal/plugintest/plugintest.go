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

	steprpc "github.com/argoproj/argo-rollouts/rollout/steps/plugin/rpc"
	"github.com/argoproj/argo-rollouts/rollout/trafficrouting/plugin/rpc"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
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

// Client starts a traffic router as the controller does (rollout/trafficrouting/plugin/
// client of argo-rollouts v1.10.1).
func Client(path string, stderr io.Writer, args ...string) *plugin.Client {
	return client("trafficrouter", map[string]plugin.Plugin{routerName: &rpc.RpcTrafficRouterPlugin{}}, path, stderr, args)
}

// StepClient starts a step plugin as the controller does (rollout/steps/plugin/client of
// argo-rollouts v1.10.1).
func StepClient(path string, stderr io.Writer, args ...string) *plugin.Client {
	return client("step", map[string]plugin.Plugin{stepName: &steprpc.RpcStepPlugin{}}, path, stderr, args)
}

// The names of what the controller dispenses.
const routerName, stepName = "RpcTrafficRouterPlugin", "RpcStepPlugin"

func client(cookie string, plugins map[string]plugin.Plugin, path string, stderr io.Writer, args []string) *plugin.Client {
	return plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig: plugin.HandshakeConfig{ProtocolVersion: 1, MagicCookieKey: "ARGO_ROLLOUTS_RPC_PLUGIN", MagicCookieValue: cookie},
		Plugins:         plugins,
		Cmd:             exec.Command(path, args...),
		Managed:         true,
		Stderr:          stderr,
		Logger:          hclog.NewNullLogger(),
	})
}

// Dispense returns the traffic router that a plugin serves.
func Dispense(c *plugin.Client) (rpc.TrafficRouterPlugin, error) {
	return dispense[rpc.TrafficRouterPlugin](c, routerName)
}

// DispenseStep returns the step plugin that a plugin serves.
func DispenseStep(c *plugin.Client) (steprpc.StepPlugin, error) {
	return dispense[steprpc.StepPlugin](c, stepName)
}

func dispense[T any](c *plugin.Client, name string) (dispensed T, err error) {
	protocol, err := c.Client()
	if err != nil {
		return dispensed, err
	}
	served, err := protocol.Dispense(name)
	if err != nil {
		return dispensed, err
	}
	return served.(T), nil
}

// Start runs a plugin with a kubeconfig of this text until the test ends, and returns its
// initialised router and what the plugin writes to stderr.
func Start(t *testing.T, path, kubeconfig string, args ...string) (rpc.TrafficRouterPlugin, *Output) {
	t.Helper()
	return start(t, Client, Dispense, path, kubeconfig, args)
}

// StartStep is Start for a step plugin.
func StartStep(t *testing.T, path, kubeconfig string, args ...string) (steprpc.StepPlugin, *Output) {
	t.Helper()
	return start(t, StepClient, DispenseStep, path, kubeconfig, args)
}

func start[T interface{ InitPlugin() types.RpcError }](t *testing.T, run func(string, io.Writer, ...string) *plugin.Client, dispense func(*plugin.Client) (T, error), path, kubeconfig string, args []string) (T, *Output) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	stderr := &Output{}
	c := run(path, stderr, args...)
	t.Cleanup(c.Kill)
	t.Setenv("KUBECONFIG", file) // go-plugin hands on the environment
	served, err := dispense(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := served.InitPlugin(); err.HasError() {
		t.Fatalf("InitPlugin: %s", err)
	}
	return served, stderr
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
