package steps

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// defaultTimeout is a step's timeout if the Rollout's progress deadline allows it.
	defaultTimeout = 8 * time.Minute
	// defaultDeadline is Argo Rollouts' default of progressDeadlineSeconds.
	defaultDeadline = 10 * time.Minute
	// deadlineMargin is how long before progressDeadlineSeconds a step times out at the
	// latest: after that deadline the controller makes no more calls.
	deadlineMargin = time.Minute
	// minInterval is the shortest time between two calls: the controller turns 10 s and
	// less into 30 s, and always adds 5 s.
	minInterval     = 11 * time.Second
	defaultInterval = 15 * time.Second
	// maxTimeout bounds a step's timeout.
	maxTimeout = 24 * time.Hour
	// maxRetries bounds the retries of a step.
	maxRetries = 10
)

// Settings are the keys that every kind of step has. With a wrong preset or configuration a step
// [waits or fails](#what-happens-when).
type Settings struct {
	// ID names the step for the steps after it, which read its outputs by this name: a letter,
	// then letters, digits, `_` and `-`, 63 at most. No two steps of a Rollout have the same.
	//
	// Default: the step's index, from 0.
	ID string `json:"id,omitempty"`
	// Timeout bounds the whole step, retries included, up to 24h. The step fails at its
	// beginning if `timeout` is longer than the Rollout's `progressDeadlineSeconds` (600 where
	// it has none) less a minute. Time in which the Rollout is paused does not count.
	//
	// Default: `8m`, or what a shorter progress deadline leaves.
	Timeout metav1.Duration `json:"timeout,omitzero"`
	// Interval is the time between two polls of running work, `11s` or more. Argo Rollouts adds
	// 5 s.
	//
	// Default: `15s`.
	Interval metav1.Duration `json:"interval,omitzero"`
	// FailurePolicy says what a failed step means: `Fail` aborts the canary, `Ignore` goes on
	// with a Warning Event `StepFailureIgnored`.
	//
	// Default: `Fail`.
	FailurePolicy FailurePolicy `json:"failurePolicy,omitempty"`
	// Retries is how often the step tries again after a failure, 10 at most. Each attempt has a
	// key of its own. The plugin cancels work of the attempt before that may still run. After
	// its timeout a step does not try again.
	//
	// Default: `0`.
	Retries int32 `json:"retries,omitempty"`
	// OnUnknown says what follows when work may have been started and the answer was lost, as in
	// a crash. `Repeat` starts the work again, with the same key. `Fail` cancels the work and
	// fails the step; it delays each start by `interval` and 5 s. It is for the kind `http`
	// without `find`: the plugin finds other work again.
	//
	// Default: `Repeat`.
	OnUnknown OnUnknown `json:"onUnknown,omitempty"`
	// Use is the name of a preset: a ConfigMap in the controller's namespace. The step then has
	// only keys that the preset leaves open.
	Use string `json:"use,omitempty"`
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
	case s.Use != "" && len(validation.IsDNS1123Subdomain(s.Use)) > 0:
		return fmt.Errorf("use %q: want the name of a preset, which is that of its ConfigMap", s.Use)
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

// TimeoutFor returns how long the step may take on a Rollout. If the configured timeout
// exceeds what the Rollout's progress deadline allows, it returns an error and the longest
// time allowed; if the deadline allows none, an error and one second.
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
