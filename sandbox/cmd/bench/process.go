package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/argoproj/argo-rollouts/rollout/trafficrouting/plugin/rpc"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
)

// process is a plugin started as the controller does.
type process struct {
	client *plugin.Client
	router rpc.TrafficRouterPlugin
	stderr bytes.Buffer
}

func start(path string) (*process, error) {
	p := &process{}
	p.client = plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig: plugin.HandshakeConfig{ProtocolVersion: 1, MagicCookieKey: "ARGO_ROLLOUTS_RPC_PLUGIN", MagicCookieValue: "trafficrouter"},
		Plugins:         map[string]plugin.Plugin{"RpcTrafficRouterPlugin": &rpc.RpcTrafficRouterPlugin{}},
		Cmd:             exec.Command(path),
		Managed:         true,
		Stderr:          &p.stderr,
		Logger:          hclog.NewNullLogger(),
	})
	protocol, err := p.client.Client()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	router, err := protocol.Dispense("RpcTrafficRouterPlugin")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	p.router = router.(rpc.TrafficRouterPlugin)
	if err := p.router.InitPlugin(); err.HasError() {
		return nil, fmt.Errorf("%s: InitPlugin: %w", path, err)
	}
	return p, nil
}

// reconcile makes the two calls of a reconcile that carry the weight.
func (p *process) reconcile(i int, weight int32) error {
	ro := rollout(i)
	if err := p.router.SetWeight(ro, weight, nil); err.HasError() {
		return err
	}
	verified, err := p.router.VerifyWeight(ro, weight, nil)
	if err.HasError() {
		return err
	}
	if verified != types.Verified {
		return fmt.Errorf("weight %d of %s is not verified", weight, ro.Name)
	}
	return nil
}

// memory returns the resident memory of the process, in MB (10^6 bytes).
func (p *process) memory() (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.client.ReattachConfig().Pid))
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(string(status), "VmRSS:")
	fields := strings.Fields(rest)
	if !found || len(fields) == 0 {
		return 0, fmt.Errorf("no VmRSS in %s", status)
	}
	kib, err := strconv.ParseFloat(fields[0], 64)
	return kib * 1024 / 1e6, err
}

// poll waits for a condition, at most two minutes.
func poll(ctx context.Context, what string, condition func() (bool, error)) error {
	for deadline := time.Now().Add(2 * time.Minute); ; {
		ok, err := condition()
		if ok || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not within 2 minutes: %s", what)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}
