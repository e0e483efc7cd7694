package steps

import (
	"sync"
	"time"
)

// Reasons of the Progressing condition of a Rollout that is paused, and of one that goes on
// after that (utils/conditions of argo-rollouts).
const (
	progressPaused  = "RolloutPaused"
	progressResumed = "RolloutResumed"
)

// isOfFormerCanary tells whether a status is of a canary that was aborted and is retried. If
// the first step is a plugin step that was running at the abort, Argo Rollouts v1.10.1 hands
// it the status of before: it takes that away only after the call (cleanStatusForRetry of
// rollout/stepplugin.go).
//
// The key of such a status is not that of the present canary. That is so, too, when a
// Rollout was paused meanwhile, of which its Progressing condition tells.
func (r *run) isOfFormerCanary() bool {
	if r.aborted.has(r.key()) {
		return true
	}
	if r.s.Process == r.process || r.s.Key == keyOf(r.ro, r.pluginName, r.s.Index) {
		return false
	}
	reason := progressing(r.ro).Reason
	return reason != progressPaused && reason != progressResumed
}

// forget has the step begin anew. What the status is about was to be cancelled at the
// abort, which may not have been finished when the process of then ended.
func (r *run) forget() {
	if !r.aborted.has(r.key()) {
		r.cleanUpWork(cleanup{ro: r.ro, pluginName: r.pluginName, s: *r.s, config: r.config, timeout: retryPatience})
	}
	r.s = nil
}

// aborted has the attempts that were aborted, and when.
type aborted struct {
	mu  sync.Mutex
	all map[string]time.Time
}

// abortedKept is how long they are kept.
const abortedKept = 24 * time.Hour

func (a *aborted) note(attempt string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = map[string]time.Time{}
	}
	for other, at := range a.all {
		if len(a.all) >= maxOutcomes || time.Since(at) > abortedKept {
			delete(a.all, other)
		}
	}
	a.all[attempt] = time.Now()
}

func (a *aborted) has(attempt string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.all[attempt]
	return ok
}
