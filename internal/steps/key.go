package steps

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
)

// revisionAnnotation has a Rollout's revision (utils/annotations of argo-rollouts).
const revisionAnnotation = "rollout.argoproj.io/revision"

// keyOf returns the key of a step in the canary that a Rollout is in. The
// same step of the same canary has the same key, also when the answer to its first Run is
// lost. A retry of an aborted canary, a return to an earlier version and an edit of the
// steps have another: by the transition of the Progressing condition, the revision and the
// steps' hash.
func keyOf(ro *v1alpha1.Rollout, pluginName string, index int32) string {
	return hashOf(string(ro.UID), ro.Status.CurrentPodHash, ro.Annotations[revisionAnnotation],
		ro.Status.CurrentStepHash, pluginName, strconv.Itoa(int(index)), strconv.FormatInt(progressing(ro).LastTransitionTime.Unix(), 10))
}

// retriedKeyOf returns the key of a canary that is retried within a second, whose Rollout has
// the conditions of the canary before.
func retriedKeyOf(key string) string { return hashOf(key, "retried") }

// progressing is the Progressing condition of a Rollout; empty where it has none.
func progressing(ro *v1alpha1.Rollout) v1alpha1.RolloutCondition {
	for _, condition := range ro.Status.Conditions {
		if condition.Type == v1alpha1.RolloutProgressing {
			return condition
		}
	}
	return v1alpha1.RolloutCondition{}
}

// workKey returns the key of the attempt that a Rollout's status is about. It is made of the
// UID, which only the API server gives: a key that somebody has copied from the status of
// another Rollout is no key to the work of that.
func (s *status) workKey(ro *v1alpha1.Rollout) string {
	return hashOf(string(ro.UID), s.Key, strconv.Itoa(int(s.Attempt)))
}

// hashOf returns 32 hexadecimal digits for a list of texts.
func hashOf(parts ...string) string {
	text, err := json.Marshal(parts)
	if err != nil {
		panic(err) // strings
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}
