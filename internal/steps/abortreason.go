package steps

import (
	"regexp"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/steps/bound"
)

// abortedReason is the reason of the Progressing condition of an aborted Rollout
// (utils/conditions of argo-rollouts).
const abortedReason = "RolloutAborted"

// maxReason bounds the reason of an abort, in bytes.
const maxReason = 1000

// abortMessage is how the Progressing condition of an aborted Rollout begins; the reason is
// behind it (rollout/sync.go, calculateRolloutConditions).
var abortMessage = regexp.MustCompile(`^Rollout aborted update to revision \d+(?:: )?`)

// abortReason returns why a Rollout is aborted, as far as it says so when the controller calls
// Abort; empty if that is not known.
//
// After a step has failed, and after the progress deadline, the controller stores the reason
// before that call. Of analyses and experiments it makes the call first: the Rollout then is
// not marked as aborted yet, and only names what was running. Who sets status.abort, such as
// kubectl argo rollouts abort, gives no reason.
func abortReason(ro *v1alpha1.Rollout) string {
	progress := progressing(ro)
	switch {
	case progress.Reason == abortedReason:
		return reasonLine(abortMessage.ReplaceAllString(progress.Message, ""))
	case ro.Status.Abort:
		return ""
	}
	var judges []string
	add := func(kind string, run *v1alpha1.RolloutAnalysisRunStatus) {
		if run != nil {
			judges = append(judges, kind+" "+run.Name)
		}
	}
	add("AnalysisRun", ro.Status.Canary.CurrentStepAnalysisRunStatus)
	add("AnalysisRun", ro.Status.Canary.CurrentBackgroundAnalysisRunStatus)
	if name := ro.Status.Canary.CurrentExperiment; name != "" {
		judges = append(judges, "Experiment "+name)
	}
	if len(judges) == 0 {
		return ""
	}
	return reasonLine(strings.Join(judges, " or ") + " has not succeeded")
}

// reasonLine returns a reason as it may go into a header and a variable: others have written
// parts of it, such as a log.
func reasonLine(reason string) string { return bound.Shorten(bound.Line(reason), maxReason) }
