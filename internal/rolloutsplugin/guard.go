package rolloutsplugin

import (
	"fmt"
	"runtime/debug"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/rollout/trafficrouting/plugin/rpc"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/hashicorp/go-hclog"
)

// GuardTrafficRouter returns a traffic router that turns a panic into an error of the
// call it happened in, with the stack in the log. net/rpc does not recover panics:
// without the guard one bad Rollout would end the plugin for all Rollouts.
func GuardTrafficRouter(router rpc.TrafficRouterPlugin, logger hclog.Logger) rpc.TrafficRouterPlugin {
	return &guarded{router: router, logger: logger}
}

type guarded struct {
	router rpc.TrafficRouterPlugin
	logger hclog.Logger
}

// recovered is deferred by each call; it must be deferred directly.
func (g *guarded) recovered(call string, ro *v1alpha1.Rollout, err *types.RpcError) {
	cause := recover()
	if cause != nil {
		*err = types.RpcError{ErrorString: panicked(g.logger, call, ro, cause)}
	}
}

// panicked logs the panic of a call, with its stack, and returns the message for users.
func panicked(logger hclog.Logger, call string, ro *v1alpha1.Rollout, cause any) string {
	on := ""
	if ro != nil {
		on = fmt.Sprintf(" for Rollout %s/%s", ro.Namespace, ro.Name)
	}
	logger.Error("panic in "+call+on, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
	return fmt.Sprintf("%s%s: a bug in the plugin: panic: %v (stack in the controller's log; please report it)", call, on, cause)
}

func (g *guarded) InitPlugin() (err types.RpcError) {
	defer g.recovered("InitPlugin", nil, &err)
	return g.router.InitPlugin()
}

func (g *guarded) UpdateHash(ro *v1alpha1.Rollout, canaryHash, stableHash string, additional []v1alpha1.WeightDestination) (err types.RpcError) {
	defer g.recovered("UpdateHash", ro, &err)
	return g.router.UpdateHash(ro, canaryHash, stableHash, additional)
}

func (g *guarded) SetWeight(ro *v1alpha1.Rollout, weight int32, additional []v1alpha1.WeightDestination) (err types.RpcError) {
	defer g.recovered("SetWeight", ro, &err)
	return g.router.SetWeight(ro, weight, additional)
}

func (g *guarded) SetHeaderRoute(ro *v1alpha1.Rollout, route *v1alpha1.SetHeaderRoute) (err types.RpcError) {
	defer g.recovered("SetHeaderRoute", ro, &err)
	return g.router.SetHeaderRoute(ro, route)
}

func (g *guarded) SetMirrorRoute(ro *v1alpha1.Rollout, route *v1alpha1.SetMirrorRoute) (err types.RpcError) {
	defer g.recovered("SetMirrorRoute", ro, &err)
	return g.router.SetMirrorRoute(ro, route)
}

func (g *guarded) VerifyWeight(ro *v1alpha1.Rollout, weight int32, additional []v1alpha1.WeightDestination) (verified types.RpcVerified, err types.RpcError) {
	defer g.recovered("VerifyWeight", ro, &err)
	return g.router.VerifyWeight(ro, weight, additional)
}

func (g *guarded) RemoveManagedRoutes(ro *v1alpha1.Rollout) (err types.RpcError) {
	defer g.recovered("RemoveManagedRoutes", ro, &err)
	return g.router.RemoveManagedRoutes(ro)
}

func (g *guarded) Type() string { return g.router.Type() }
