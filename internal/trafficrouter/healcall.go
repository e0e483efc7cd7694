package trafficrouter

import (
	"context"
	"fmt"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/rolloutspec"
	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
)

// fingerprint holds the fields of a Rollout on which a decision depends. While it is
// the same as at the call, the controller would make the same call again.
type fingerprint struct {
	uid                        types.UID
	generation                 int64
	abort, promoteFull         bool
	currentPodHash, stableHash string
	step                       int32
}

// fingerprintOf returns the fingerprint of a Rollout. It is the same for a Rollout from
// a call, where gob has turned step index 0 into nil, and for one from the API server.
func fingerprintOf(ro *v1alpha1.Rollout) fingerprint {
	return fingerprint{
		uid:            ro.UID,
		generation:     ro.Generation,
		abort:          ro.Status.Abort,
		promoteFull:    ro.Status.PromoteFull,
		currentPodHash: ro.Status.CurrentPodHash,
		stableHash:     ro.Status.StableRS,
		step:           stepOf(ro),
	}
}

// weightCall is the SetWeight that a decision was made for.
type weightCall struct {
	fingerprint fingerprint
	// stable and canary are the weights that were asked for, whether they were set or
	// not.
	stable, canary int32
}

// weightCallOf returns the SetWeight for a Rollout with a canary weight and experiments.
func weightCallOf(ro *v1alpha1.Rollout, weight int32, additional []v1alpha1.WeightDestination) weightCall {
	call := weightCall{fingerprintOf(ro), rolloutspec.MaxWeight(ro) - weight, weight}
	for _, destination := range additional {
		call.stable -= destination.Weight
	}
	return call
}

// StillAsks reads a Rollout, and returns it if the controller would make the same call
// again. Otherwise it returns nil and the outcome for the repair: Unneeded if the
// Rollout has moved on, since the controller will call, or has called another instance
// of the plugin; Failed if the Rollout cannot be read, or its status has other weights.
// The decision for a Rollout that does not exist is dropped.
func (k *Keeper[D]) StillAsks(ctx context.Context, objects *kube.Objects, rollout types.NamespacedName, call weightCall) (*v1alpha1.Rollout, Outcome, error) {
	ro, err := rolloutsplugin.ReadRollout(ctx, objects, rollout)
	switch {
	case err != nil:
		return nil, Failed, err
	case ro == nil:
		k.Forget(rollout)
		return nil, Unneeded, nil
	case fingerprintOf(ro) != call.fingerprint:
		return nil, Unneeded, nil
	}
	if weights := ro.Status.Canary.Weights; weights != nil && (weights.Canary.Weight != call.canary || weights.Stable.Weight != call.stable) {
		return nil, Failed, fmt.Errorf("the Rollout's status says weights %d and %d for stable and canary, the last call was for %d and %d",
			weights.Stable.Weight, weights.Canary.Weight, call.stable, call.canary)
	}
	return ro, Unneeded, nil
}
