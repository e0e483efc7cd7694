package rolloutsstep

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// Rollout is what a verdict needs to know of a Rollout.
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
	// Places are the canary's plugin steps.
	Places []Place
}

// object is the fields of a Rollout that are read.
type object struct {
	Metadata struct {
		Generation        int64             `json:"generation"`
		DeletionTimestamp *metav1.Time      `json:"deletionTimestamp"`
		Annotations       map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		WorkloadRef *struct{} `json:"workloadRef"`
		Strategy    struct {
			Canary *struct {
				Steps []struct {
					Plugin *v1alpha1.PluginStep `json:"plugin"`
				} `json:"steps"`
			} `json:"canary"`
		} `json:"strategy"`
	} `json:"spec"`
	Status struct {
		Abort                      bool                  `json:"abort"`
		AbortedAt                  *metav1.Time          `json:"abortedAt"`
		ObservedGeneration         string                `json:"observedGeneration"`
		WorkloadObservedGeneration string                `json:"workloadObservedGeneration"`
		Phase                      v1alpha1.RolloutPhase `json:"phase"`
		Message                    string                `json:"message"`
		StableRS                   string                `json:"stableRS"`
		CurrentPodHash             string                `json:"currentPodHash"`
		CurrentStepIndex           int                   `json:"currentStepIndex"`
		Conditions                 []struct {
			Type               v1alpha1.RolloutConditionType `json:"type"`
			Reason             string                        `json:"reason"`
			Message            string                        `json:"message"`
			LastTransitionTime metav1.Time                   `json:"lastTransitionTime"`
		} `json:"conditions"`
	} `json:"status"`
}

// readRollout reads a Rollout from the API server's JSON.
func readRollout(text []byte) Rollout {
	var o object
	if err := utiljson.Unmarshal(text, &o); err != nil {
		return Rollout{Unreadable: shorten(err.Error())}
	}
	r := Rollout{
		Deleted:  o.Metadata.DeletionTimestamp != nil,
		Observed: o.Status.ObservedGeneration == strconv.FormatInt(o.Metadata.Generation, 10),
		Phase:    v1alpha1.RolloutPhase(strings.Clone(string(o.Status.Phase))),
		Message:  shorten(o.Status.Message),
		Deployed: o.Status.StableRS != "",
		UnderWay: o.Status.StableRS != "" && o.Status.StableRS != o.Status.CurrentPodHash,
		Aborted:  o.Status.Abort,
		Step:     o.Status.CurrentStepIndex,
	}
	if generation, ok := o.Metadata.Annotations[workloadGeneration]; ok && o.Spec.WorkloadRef != nil {
		r.Observed = r.Observed && o.Status.WorkloadObservedGeneration == generation
	}
	if r.Aborted && o.Status.AbortedAt != nil {
		r.AbortedAt = o.Status.AbortedAt.Time
	}
	for _, condition := range o.Status.Conditions {
		switch {
		case condition.Type == v1alpha1.InvalidSpec:
			r.Invalid, r.InvalidAt = shorten(condition.Message), condition.LastTransitionTime.Time
		case condition.Type == v1alpha1.RolloutProgressing && condition.Reason == timedOutReason:
			r.TimedOut = true
		}
	}
	if canary := o.Spec.Strategy.Canary; canary != nil {
		r.Steps = len(canary.Steps)
		for i, step := range canary.Steps {
			if step.Plugin != nil {
				r.Places = append(r.Places, Place{Index: i, Plugin: step.Plugin.Name, Barrier: configuredBarrier(step.Plugin.Config)})
			}
		}
	}
	return r
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
