package selfheal

import (
	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
)

// Fingerprint is what of a Rollout a decision depends on. While it is as it was
// at the call, the controller would ask for the same again.
type Fingerprint struct {
	uid                        types.UID
	generation                 int64
	abort, promoteFull         bool
	currentPodHash, stableHash string
	step                       int32
}

// FingerprintOf returns the fingerprint of a Rollout. One from a call, where gob
// has made a nil of the step index 0, and one from the API server are equal.
func FingerprintOf(ro *v1alpha1.Rollout) Fingerprint {
	f := Fingerprint{
		uid:            ro.UID,
		generation:     ro.Generation,
		abort:          ro.Status.Abort,
		promoteFull:    ro.Status.PromoteFull,
		currentPodHash: ro.Status.CurrentPodHash,
		stableHash:     ro.Status.StableRS,
	}
	if ro.Status.CurrentStepIndex != nil {
		f.step = *ro.Status.CurrentStepIndex
	}
	return f
}
