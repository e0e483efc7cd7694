// Command idle is the plugin with calls that do nothing: its rate of answers is the
// limit of the RPC, with which `make bench` compares the plugin.
package main

import (
	"fmt"
	"os"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
)

type idle struct{}

func (idle) InitPlugin() types.RpcError { return types.RpcError{} }

func (idle) UpdateHash(*v1alpha1.Rollout, string, string, []v1alpha1.WeightDestination) types.RpcError {
	return types.RpcError{}
}

func (idle) SetWeight(*v1alpha1.Rollout, int32, []v1alpha1.WeightDestination) types.RpcError {
	return types.RpcError{}
}

func (idle) SetHeaderRoute(*v1alpha1.Rollout, *v1alpha1.SetHeaderRoute) types.RpcError {
	return types.RpcError{}
}

func (idle) SetMirrorRoute(*v1alpha1.Rollout, *v1alpha1.SetMirrorRoute) types.RpcError {
	return types.RpcError{}
}

func (idle) VerifyWeight(*v1alpha1.Rollout, int32, []v1alpha1.WeightDestination) (types.RpcVerified, types.RpcError) {
	return types.Verified, types.RpcError{}
}

func (idle) RemoveManagedRoutes(*v1alpha1.Rollout) types.RpcError { return types.RpcError{} }

func (idle) Type() string { return "idle" }

func main() {
	logger, err := rolloutsplugin.NewLogger(os.Stderr, "idle", "info", "json")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	rolloutsplugin.ServeTrafficRouter(idle{}, logger)
}
