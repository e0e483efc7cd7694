package main

import (
	"fmt"
	"os/exec"

	"github.com/argoproj/argo-rollouts/rollout/trafficrouting/plugin/rpc"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
)

// process is a plugin started as the controller does.
type process struct {
	subject
	*gauge.Plugin
	router rpc.TrafficRouterPlugin
}

// start runs a build of a subject.
func (s subject) start(path string) (*process, error) {
	started, err := gauge.StartPlugin(exec.Command(path), "trafficrouter", "RpcTrafficRouterPlugin", &rpc.RpcTrafficRouterPlugin{})
	if err != nil {
		return nil, err
	}
	p := &process{subject: s, Plugin: started, router: started.Served.(rpc.TrafficRouterPlugin)}
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
