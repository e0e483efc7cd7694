package trafficrouter

import (
	"context"
	"fmt"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	plugin "github.com/argoproj/argo-rollouts/utils/plugin/types"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutspec"
	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
)

// Names of calls.
const setWeight, verifyWeight, removeManagedRoutes = "SetWeight", "VerifyWeight", "RemoveManagedRoutes"

// call is one call of the controller while it is answered.
type call[S any] struct {
	Plan
	// name is the name of the call, weight and additional are its arguments. For a route
	// call they are those of the last SetWeight, by the Rollout's status.
	name       string
	weight     int32
	additional []v1alpha1.WeightDestination

	config Config[S]
	// configError is why the configuration cannot be read.
	configError error
	// problem is what is wrong with the Rollout's spec, configError included.
	problem error
	// readings are what the call has read, for the memory of unchanged calls.
	readings []reading
}

// serve answers a call: within the time limit, while no other call and no repair of the same
// Rollout runs, and from memory if nothing has changed since the last equal call. Its error
// names the Rollout and the call.
func (r *Router[T, S]) serve(c *call[S], do func(context.Context, *call[S]) error) plugin.RpcError {
	ctx, cancel := context.WithTimeout(r.ctx, r.Timeout)
	defer cancel()
	unlock, err := r.healer.Lock(ctx, c.Name())
	if err != nil {
		return rolloutsplugin.CallError(c.Rollout, c.name, err)
	}
	defer unlock()
	kept := r.memories.of(c.Rollout)
	kept.addRouteCalls(&c.Plan, c.name, c.weight)
	key := r.keyOf(c)
	if !r.remembers(kept, key) {
		r.plan(c)
		err = do(ctx, c)
		r.remember(kept, key, c, err)
	}
	kept.record(&c.Plan, c.name, err == nil && !c.held)
	return rolloutsplugin.CallError(c.Rollout, c.name, err)
}

// plan reads from a Rollout what a call needs. At weight 0 a problem does not stop the call:
// experiments get nothing either then, because traffic may have to leave a canary without
// pods.
func (r *Router[T, S]) plan(c *call[S]) {
	about := rolloutsplugin.RolloutReference(c.Rollout)
	c.warn = func(reason, topic, message string) {
		call := c.name // as errors name it, of which the controller makes Events
		if c.Weights != nil {
			call = fmt.Sprintf("%s(%d)", c.name, c.weight)
		}
		r.events.Warn(about, reason, topic, call+" for "+message)
	}
	c.config, c.configError = r.backend.Configure(c.Rollout)
	c.problem, c.Unconfigured = c.configError, c.configError != nil
	for _, warning := range c.config.Warnings {
		c.Warn(r.Reasons.Configuration, warning, warning)
	}
	if c.Weights == nil {
		return
	}
	// A weight that is not possible is not at rest, unless that is asked for.
	*c.Weights = Weights{Canary: c.weight, Experiments: c.additional}
	stable, err := rolloutspec.StableWeight(c.Rollout, c.weight, c.additional)
	c.Weights.Stable = stable
	if c.problem == nil {
		c.problem = err
	}
	if c.problem != nil && c.weight == 0 {
		*c.Weights = Weights{}
	}
}
