package rolloutsstep

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/kedify/argo-rollouts-plugin/internal/steps/bound"
)

// These are of the controller. Its packages would bring in many others.
const (
	// workloadGeneration is the annotation with the generation of the object that
	// workloadRef names (utils/annotations).
	workloadGeneration = "rollout.argoproj.io/workload-generation"
	// timedOutReason is the reason of the Progressing condition of a Rollout that has
	// exceeded its progress deadline (utils/conditions).
	timedOutReason = "ProgressDeadlineExceeded"
)

// textLimit bounds what is kept of a Rollout's message, in bytes.
const textLimit = 160

// Rollout is what a decision needs to know of a Rollout.
type Rollout struct {
	// Unreadable is why the other fields are not known; empty for a Rollout that could be
	// read.
	Unreadable string
	// Deleted is true once its deletion was asked for.
	Deleted bool
	// Observed is true when the controller has observed the Rollout's last change.
	Observed bool
	// Phase and Message are those of its status.
	Phase   v1alpha1.RolloutPhase
	Message string
	// Deployed is true when it has a stable version, UnderWay when it is on the way from
	// that to another one.
	Deployed, UnderWay bool
	// Aborted is true when it is to be aborted; AbortedAt is when that was done.
	Aborted   bool
	AbortedAt time.Time
	// Invalid is what is wrong with its spec, since InvalidAt.
	Invalid   string
	InvalidAt time.Time
	// TimedOut is true when it has exceeded its progress deadline: the controller calls
	// none of its steps until it makes progress in another way.
	TimedOut bool
	// Step is the index of the canary's present step, Steps the number of its steps.
	Step, Steps int
	// PluginSteps are the canary's plugin steps.
	PluginSteps []PluginStep
	// The following are kept of a region's Rollouts alone: a version is made from them.
	//
	// Images are the images of its containers by their names, and nil with a workloadRef, for
	// which the ReplicaSet of this name has them.
	Images     map[string]string
	ReplicaSet string
	// Annotations are its short annotations.
	Annotations map[string]string
}

// readRollout reads a Rollout from the API server's JSON.
func readRollout(text []byte) Rollout {
	var ro v1alpha1.Rollout
	if err := utiljson.Unmarshal(text, &ro); err != nil {
		return Rollout{Unreadable: shorten(err.Error())}
	}
	return rolloutOf(&ro)
}

func rolloutOf(ro *v1alpha1.Rollout) Rollout {
	r := Rollout{
		Deleted:  ro.DeletionTimestamp != nil,
		Observed: ro.Status.ObservedGeneration == strconv.FormatInt(ro.Generation, 10),
		Phase:    ro.Status.Phase,
		Message:  shorten(withoutOthers(ro.Status.Message)),
		Deployed: ro.Status.StableRS != "",
		UnderWay: ro.Status.StableRS != "" && ro.Status.StableRS != ro.Status.CurrentPodHash,
		Aborted:  ro.Status.Abort,
	}
	if generation, ok := ro.Annotations[workloadGeneration]; ok && ro.Spec.WorkloadRef != nil {
		r.Observed = r.Observed && ro.Status.WorkloadObservedGeneration == generation
	}
	if r.Aborted && ro.Status.AbortedAt != nil {
		r.AbortedAt = ro.Status.AbortedAt.Time
	}
	for _, condition := range ro.Status.Conditions {
		switch {
		case condition.Type == v1alpha1.InvalidSpec:
			r.Invalid, r.InvalidAt = shorten(condition.Message), condition.LastTransitionTime.Time
		case condition.Type == v1alpha1.RolloutProgressing && condition.Reason == timedOutReason:
			r.TimedOut = true
		}
	}
	if ro.Status.CurrentStepIndex != nil {
		r.Step = int(*ro.Status.CurrentStepIndex)
	}
	if canary := ro.Spec.Strategy.Canary; canary != nil {
		r.Steps = len(canary.Steps)
		for i, step := range canary.Steps {
			if step.Plugin != nil {
				r.PluginSteps = append(r.PluginSteps, readPluginStep(i, step.Plugin))
			}
		}
	}
	return r
}

// withoutOthers returns a message of a Rollout without what others have failed of. Those say it
// themselves, and where Rollouts wait for each other, each would repeat all that it has read.
func withoutOthers(message string) string {
	start, _, nested := strings.Cut(message, failedWithOthers+": ")
	if !nested {
		return message
	}
	return start + failedWithOthers
}

// failure tells whether a Rollout has failed, when and how. The time is zero for a Rollout
// that is being aborted now.
func (r *Rollout) failure() (at time.Time, why string, failed bool) {
	switch {
	case r.Aborted:
		return r.AbortedAt, r.Message, true
	// A Rollout that has never run may still be waiting for its Services.
	case r.Invalid != "" && r.Deployed:
		return r.InvalidAt, r.Invalid, true
	default:
		return time.Time{}, "", false
	}
}

// state is a Rollout's phase for people.
func (r *Rollout) state() string {
	phase := r.Phase
	if phase == "" {
		phase = "without a status"
	}
	if r.Message == "" {
		return fmt.Sprintf("is %s", phase)
	}
	return fmt.Sprintf("is %s (%s)", phase, r.Message)
}

// shorten returns a text of about textLimit bytes, on one line. It is a copy, so that the
// whole text is not kept in memory.
func shorten(text string) string {
	return strings.Clone(bound.Shorten(strings.Join(strings.Fields(text), " "), textLimit))
}
