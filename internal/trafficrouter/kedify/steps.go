package kedify

import (
	"context"
	"fmt"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
)

func unsupportedHeaderRoute(route *v1alpha1.SetHeaderRoute) error {
	return fmt.Errorf("header routes (route %q) are not supported by %s: take the setHeaderRoute step out", route.Name, PluginName)
}

func unsupportedMirrorRoute(route *v1alpha1.SetMirrorRoute) error {
	return fmt.Errorf("mirror routes (route %q) are not supported by %s: take the setMirrorRoute step out", route.Name, PluginName)
}

// unsupportedStep returns an error that names the first step of a Rollout that the
// router cannot carry out. It can carry out steps that remove a route.
func unsupportedStep(ro *v1alpha1.Rollout) error {
	if ro.Spec.Strategy.Canary == nil {
		return nil
	}
	for i, step := range ro.Spec.Strategy.Canary.Steps {
		var err error
		switch {
		case step.SetHeaderRoute != nil && len(step.SetHeaderRoute.Match) > 0:
			err = unsupportedHeaderRoute(step.SetHeaderRoute)
		case step.SetMirrorRoute != nil && len(step.SetMirrorRoute.Match) > 0:
			err = unsupportedMirrorRoute(step.SetMirrorRoute)
		default:
			continue
		}
		return fmt.Errorf("spec.strategy.canary.steps[%d]: %w", i, err)
	}
	return nil
}

// leavingSteps tells whether a Rollout is aborted or promoted in full. Argo Rollouts
// then still asks for the route of the current step before it sets the weight: an error
// would keep the split where it is, so that an abort would never take effect.
func leavingSteps(ro *v1alpha1.Rollout) bool { return ro.Status.Abort || ro.Status.PromoteFull }

// checkSteps returns an error for a canary with a step that cannot be carried out,
// before the canary gets any traffic. Once it has some, checkSteps only warns: an error
// would keep the controller from taking the traffic back.
func (r *Router) checkSteps(ctx context.Context, p plan) error {
	if p.atRest || leavingSteps(p.ro) {
		return nil
	}
	err := unsupportedStep(p.ro)
	if err == nil || !r.canaryHasShare(ctx, p.ro) {
		return err
	}
	r.warn(p, err.Error())
	return nil
}

// refuseRoute answers a call for a header or mirror route. While the canary has a share
// of the traffic, it returns no error: the controller makes this call before SetWeight,
// also when it wants weight 0 because the canary's pods are gone. The controller writes
// no Event for these calls.
func (r *Router) refuseRoute(ro *v1alpha1.Rollout, call string, refusal error) types.RpcError {
	if leavingSteps(ro) {
		return types.RpcError{}
	}
	ctx, cancel := context.WithTimeout(r.ctx, r.timeout)
	defer cancel()
	answer := rolloutsplugin.CallError(ro, call, refusal)
	r.events.Warn(rolloutsplugin.RolloutReference(ro), reasonError, refusal.Error(), answer.Error())
	if r.canaryHasShare(ctx, ro) {
		return types.RpcError{}
	}
	return answer
}
