package steps

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
)

// revisionAnnotation is the annotation with a Rollout's revision (utils/annotations of
// argo-rollouts).
const revisionAnnotation = "rollout.argoproj.io/revision"

// keyOf returns the key of a step in the canary that a Rollout is in. The same step of the
// same canary has the same key, even if the answer to its first Run is lost. The key is
// another one after a retry of an aborted canary (by the transition time of the
// Progressing condition), after a return to an earlier version (by the revision) and after
// an edit of the steps (by their hash).
func keyOf(ro *v1alpha1.Rollout, pluginName string, index int32) string {
	return hashOf(string(ro.UID), ro.Status.CurrentPodHash, ro.Annotations[revisionAnnotation],
		ro.Status.CurrentStepHash, pluginName, strconv.Itoa(int(index)), strconv.FormatInt(progressing(ro).LastTransitionTime.Unix(), 10))
}

// retriedKeyOf returns the key of a step whose canary is retried within a second: the
// Rollout's conditions are still those of the previous canary, so that keyOf returns its
// key.
func retriedKeyOf(key string) string { return hashOf(key, "retried") }

// progressing returns the Progressing condition of a Rollout; an empty one if it has none.
func progressing(ro *v1alpha1.Rollout) v1alpha1.RolloutCondition {
	for _, condition := range ro.Status.Conditions {
		if condition.Type == v1alpha1.RolloutProgressing {
			return condition
		}
	}
	return v1alpha1.RolloutCondition{}
}

// workKey returns the key of the attempt that a Rollout's status describes. It includes
// the UID, which only the API server sets: a status that was copied from another Rollout
// does not give access to that Rollout's work.
func (s *status) workKey(ro *v1alpha1.Rollout) string {
	return hashOf(string(ro.UID), s.Key, strconv.Itoa(int(s.Attempt)))
}

// hashOf returns 32 hexadecimal digits for a list of texts.
func hashOf(parts ...string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", parts))
	return hex.EncodeToString(sum[:16])
}
