package steps

import (
	"slices"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
)

// isOfFormerCanary tells whether the step's status is of a canary that was aborted, and is
// now retried. If the first step is a plugin step that was running at the abort, Argo
// Rollouts v1.10.1 passes it the old status, and removes that only after the call
// (cleanStatusForRetry of rollout/stepplugin.go). Along with such a status the Rollout has
// the status of the step's Abort or Terminate, which a running step does not have.
func (r *run) isOfFormerCanary() bool {
	if key := keyOf(r.ro, r.pluginName, r.s.Index); progressing(r.ro).Reason == retryReason && r.s.Key != key && r.s.Key != retriedKeyOf(key) {
		return true // the Abort's status is gone if the previous call was skipped for its backoff
	}
	return r.attempts.of(r.key()).aborted || slices.ContainsFunc(r.ro.Status.Canary.StepPluginStatuses, func(s v1alpha1.StepPluginStatus) bool {
		return s.Index == r.s.Index && s.Name == r.pluginName && s.Operation != v1alpha1.StepPluginOperationRun
	})
}

// retryReason is the reason of the Progressing condition from a retry until something
// progresses (utils/conditions of argo-rollouts).
const retryReason = "RolloutRetry"

// forget makes the step begin anew. The work of the old status was to be cancelled at the
// abort, but an earlier process may have ended before it had done that: forget cancels it
// then.
func (r *run) forget() {
	if !r.attempts.of(r.key()).aborted {
		if r.s.Stage == stageNew || r.s.Stage == stageAnnounced {
			r.s.Sends++
		}
		r.timeout = retryPatience
		r.cleanUp(r.newCleanup())
		r.attempts.do(r.key(), func(a *attempt) { a.aborted = true })
	}
	r.s = nil
}
