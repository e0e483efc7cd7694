package selfheal

import (
	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
)

// Fingerprint holds the fields of a Rollout on which a decision depends. While it is
// the same as at the call, the controller would make the same call again.
type Fingerprint struct {
	uid                        types.UID
	generation                 int64
	abort, promoteFull         bool
	currentPodHash, stableHash string
	step                       int32
}

// FingerprintOf returns the fingerprint of a Rollout. It is the same for a Rollout from
// a call, where gob has turned step index 0 into nil, and for one from the API server.
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
