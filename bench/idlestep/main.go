// Command idlestep is a canary step plugin whose step runs for ever and does nothing:
// Argo Rollouts' half of the RPC and no more. `make bench-step` compares
// rollouts-plugin-step with it.
package main

import (
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/rollout/steps/plugin/rpc"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/hashicorp/go-plugin"
)

type idle struct{}

func (idle) InitPlugin() types.RpcError { return types.RpcError{} }

func (idle) Type() string { return "idle" }

// Run asks to be called again as often as rollouts-plugin-step does by default.
func (idle) Run(*v1alpha1.Rollout, *types.RpcStepContext) (types.RpcStepResult, types.RpcError) {
	return types.RpcStepResult{Phase: types.PhaseRunning, Message: "waiting", RequeueAfter: 15 * time.Second, Status: []byte(`{}`)}, types.RpcError{}
}

func (idle) Terminate(*v1alpha1.Rollout, *types.RpcStepContext) (types.RpcStepResult, types.RpcError) {
	return types.RpcStepResult{Phase: types.PhaseSuccessful}, types.RpcError{}
}

func (idle) Abort(*v1alpha1.Rollout, *types.RpcStepContext) (types.RpcStepResult, types.RpcError) {
	return types.RpcStepResult{Phase: types.PhaseSuccessful}, types.RpcError{}
}

func main() {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: plugin.HandshakeConfig{ProtocolVersion: 1, MagicCookieKey: "ARGO_ROLLOUTS_RPC_PLUGIN", MagicCookieValue: "step"},
		Plugins:         map[string]plugin.Plugin{"RpcStepPlugin": &rpc.RpcStepPlugin{Impl: idle{}}},
	})
}
