package main

import (
	"bytes"
	"fmt"
	"os/exec"

	"github.com/argoproj/argo-rollouts/rollout/trafficrouting/plugin/rpc"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/gauge"
)

// process is a plugin started as the controller does.
type process struct {
	subject
	client *plugin.Client
	router rpc.TrafficRouterPlugin
	stderr bytes.Buffer
}

// start runs a build of a subject.
func (s subject) start(path string) (*process, error) {
	p := &process{subject: s}
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
	ro := p.rollout(i)
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
	return gauge.Resident(p.client.ReattachConfig().Pid)
}
