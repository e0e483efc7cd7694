package steps

import (
	"slices"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
)

// isOfFormerCanary tells whether a status is of a canary that was aborted and is retried. If
// the first step is a plugin step that was running at the abort, Argo Rollouts v1.10.1 hands
// it the status of before: it takes that away only after the call (cleanStatusForRetry of
// rollout/stepplugin.go). Beside such a status the Rollout has that of the Abort, or of the
// Terminate, which no step has that runs.
func (r *run) isOfFormerCanary() bool {
	if key := keyOf(r.ro, r.pluginName, r.s.Index); progressing(r.ro).Reason == retryReason && r.s.Key != key && r.s.Key != retriedKeyOf(key) {
		return true // that of the Abort goes where the call before was skipped for its backoff
	}
	return r.isAborted(r.key()) || slices.ContainsFunc(r.ro.Status.Canary.StepPluginStatuses, func(s v1alpha1.StepPluginStatus) bool {
		return s.Index == r.s.Index && s.Name == r.pluginName && s.Operation != v1alpha1.StepPluginOperationRun
	})
}

// retryReason is that of the Progressing condition from a retry until something progresses
// (utils/conditions of argo-rollouts).
const retryReason = "RolloutRetry"

// forget has the step begin anew. What the status is about was to be cancelled at the
// abort, which may not have been finished when the process of then ended.
func (r *run) forget() {
	if !r.isAborted(r.key()) {
		r.cleanUpWork(cleanup{ro: r.ro, pluginName: r.pluginName, s: *r.s, config: r.config, timeout: retryPatience})
		r.aborted.note(r.key(), struct{}{})
	}
	r.s = nil
}

// isAborted tells whether this process was called to abort an attempt.
func (p *Plugin) isAborted(attempt string) bool {
	_, ok := p.aborted.of(attempt)
	return ok
}
