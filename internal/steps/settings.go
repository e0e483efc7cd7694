package steps

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// defaultTimeout is a step's timeout where the Rollout leaves it that long.
	defaultTimeout = 8 * time.Minute
	// defaultDeadline is Argo Rollouts' default of progressDeadlineSeconds.
	defaultDeadline = 10 * time.Minute
	// deadlineMargin is what a step leaves of progressDeadlineSeconds: after that deadline
	// the controller makes no call any more.
	deadlineMargin = time.Minute
	// minInterval is the shortest time between two calls: the controller makes 30 s of
	// 10 s and less, and always adds 5 s.
	minInterval     = 11 * time.Second
	defaultInterval = 15 * time.Second
	// maxTimeout bounds a step's timeout.
	maxTimeout = 24 * time.Hour
	// maxRetries bounds the attempts at a step.
	maxRetries = 10
)

// Settings are the keys that every kind of step has.
type Settings struct {
	// ID names the step for later steps: a letter, then letters, digits, "_" and "-", up to
	// 63 in all. It is the step's index by default, and no two steps of a Rollout have the
	// same.
	ID string `json:"id,omitempty"`
	// Timeout bounds the whole step, retries included: 8m by default, or the Rollout's
	// progressDeadlineSeconds less a minute where that is shorter. A longer one than that
	// fails the step. Time in which the controller makes no calls, as while the Rollout is
	// paused, does not count.
	Timeout metav1.Duration `json:"timeout,omitzero"`
	// Interval is how often running work is asked after: 15s by default, 11s at least. The
	// controller adds 5 s.
	Interval metav1.Duration `json:"interval,omitzero"`
	// FailurePolicy says what a failed step means: Fail (the default) aborts the canary,
	// Ignore goes on with a Warning Event.
	FailurePolicy FailurePolicy `json:"failurePolicy,omitempty"`
	// Retries is how often the whole step is tried again after a failure: 0 by default, 10
	// at most.
	Retries int32 `json:"retries,omitempty"`
	// OnUnknown says what follows when work may have been started and the answer was lost,
	// as in a crash: Repeat (the default) starts it again, with the same key; Fail fails
	// the step.
	OnUnknown OnUnknown `json:"onUnknown,omitempty"`
}

// FailurePolicy is Fail or Ignore.
type FailurePolicy string

// The failure policies.
const (
	FailurePolicyFail   FailurePolicy = "Fail"
	FailurePolicyIgnore FailurePolicy = "Ignore"
)

// OnUnknown is Repeat or Fail.
type OnUnknown string

// What may follow when it is not known whether work was started.
const (
	OnUnknownRepeat OnUnknown = "Repeat"
	OnUnknownFail   OnUnknown = "Fail"
)

var idPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,62}$`)

// Validate returns what is wrong with the settings, by key.
func (s Settings) Validate() error {
	switch {
	case s.ID != "" && !idPattern.MatchString(s.ID):
		return fmt.Errorf(`id %q: want a letter, then letters, digits, "_" and "-", up to 63 in all`, s.ID)
	case s.Timeout.Duration < 0 || s.Timeout.Duration > maxTimeout:
		return fmt.Errorf("timeout %s: want a duration above 0, such as 5m, and %s at most", s.Timeout.Duration, maxTimeout)
	case s.Interval.Duration != 0 && s.Interval.Duration < minInterval:
		return fmt.Errorf("interval %s: want %s or more: Argo Rollouts makes 30 s of what is shorter", s.Interval.Duration, minInterval)
	case !slices.Contains([]FailurePolicy{"", FailurePolicyFail, FailurePolicyIgnore}, s.FailurePolicy):
		return fmt.Errorf("failurePolicy %q: want %s or %s", s.FailurePolicy, FailurePolicyFail, FailurePolicyIgnore)
	case !slices.Contains([]OnUnknown{"", OnUnknownRepeat, OnUnknownFail}, s.OnUnknown):
		return fmt.Errorf("onUnknown %q: want %s or %s", s.OnUnknown, OnUnknownRepeat, OnUnknownFail)
	case s.Retries < 0 || s.Retries > maxRetries:
		return fmt.Errorf("retries %d: want 0 to %d", s.Retries, maxRetries)
	}
	return nil
}

// interval is how long the controller is asked to wait before the next call.
func (s Settings) interval() time.Duration {
	if s.Interval.Duration == 0 {
		return defaultInterval
	}
	return s.Interval.Duration
}

// TimeoutFor returns how long the step may take on a Rollout. It is an error when that is
// more than the Rollout's progress deadline leaves; the time is then what it leaves.
func (s Settings) TimeoutFor(ro *v1alpha1.Rollout) (time.Duration, error) {
	deadline := defaultDeadline
	if ro.Spec.ProgressDeadlineSeconds != nil {
		deadline = time.Duration(*ro.Spec.ProgressDeadlineSeconds) * time.Second
	}
	longest := deadline - deadlineMargin
	switch {
	case longest <= 0:
		return time.Second, fmt.Errorf("the Rollout's progressDeadlineSeconds is %d, and a plugin step counts against it: want more than %d", int(deadline.Seconds()), int(deadlineMargin.Seconds()))
	case s.Timeout.Duration > longest:
		return longest, fmt.Errorf("timeout %s: the Rollout's progressDeadlineSeconds of %d allows %s at most, since a plugin step counts against it: raise that, or shorten the timeout", s.Timeout.Duration, int(deadline.Seconds()), longest)
	case s.Timeout.Duration > 0:
		return s.Timeout.Duration, nil
	default:
		return min(defaultTimeout, longest), nil
	}
}
