package demo

import (
	"fmt"
	"slices"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
)

// Act is one canary of the demo.
type Act struct {
	// Title says what it shows.
	Title string
	// Image is the image that is set.
	Image string
	// CaughtAt is the weight at which the background analysis has to abort the
	// canary, because its version fails; 0 for a canary that is promoted.
	CaughtAt int32
}

// heading names the act and its version.
func (a Act) heading() string { return tagOf(a.Image) + ": " + a.Title }

// Canary is the part of a Rollout's spec that the demo follows.
type Canary struct {
	// Rollout, Stable and Canary are the names of the Rollout and of its two
	// Services.
	Rollout, Stable, Canary string
	Steps                   []v1alpha1.CanaryStep
}

// canaryOf reads a Canary from a Rollout.
func canaryOf(ro *v1alpha1.Rollout) (Canary, error) {
	strategy := ro.Spec.Strategy.Canary
	if strategy == nil || len(strategy.Steps) == 0 {
		return Canary{}, fmt.Errorf("Rollout %s/%s: spec.strategy.canary.steps is missing: the demo shows a canary's steps", ro.Namespace, ro.Name)
	}
	return Canary{Rollout: ro.Name, Stable: strategy.StableService, Canary: strategy.CanaryService, Steps: strategy.Steps}, nil
}

// Split returns the text the annotation must have at a weight of 0..100; ""
// stands for no annotation.
func (c Canary) Split(weight int32) string {
	if weight == 0 {
		return ""
	}
	return fmt.Sprintf("- service: %s\n  weight: %d\n- service: %s\n  weight: %d\n", c.Stable, 100-weight, c.Canary, weight)
}

// weightAt returns the weight that is asked for at a step, by itself or by one
// before it.
func (c Canary) weightAt(step int32) int32 {
	for _, s := range slices.Backward(c.Steps[:step+1]) {
		if s.SetWeight != nil {
			return *s.SetWeight
		}
	}
	return 0
}

// Moment is when a weight is asked for.
type Moment int

const (
	// AtStep is when the step at Expectation.Step is reached.
	AtStep Moment = iota
	// AtPromotion is when the canary has become the stable version.
	AtPromotion
	// AtAbort is when the canary is aborted.
	AtAbort
)

// Expectation is one thing that must be seen during an act.
type Expectation struct {
	// Title names the step, as in "1/6 setWeight 20".
	Title string
	// When and Step say what asks for it; steps count from 0, and the step
	// after the last is that all are done.
	When Moment
	Step int32
	// Weight is what the Rollout must report, verified.
	Weight int32
	// Split is what the annotation must say; "" for no annotation.
	Split string
	// Share is the percentage of requests that the new version must get: the
	// weight, but all of them once it is the stable version.
	Share int32
}

// Expect returns what must be seen during an act, in order, from the moment
// the new image is set.
func (a Act) Expect(c Canary) []Expectation {
	var list []Expectation
	count := len(c.Steps)
	for i, step := range c.Steps {
		if step.SetWeight == nil {
			continue
		}
		weight := *step.SetWeight
		list = append(list, Expectation{
			Title:  fmt.Sprintf("%d/%d %s", i+1, count, describeStep(step)),
			Step:   int32(i),
			Weight: weight,
			Split:  c.Split(weight),
			Share:  weight,
		})
		if a.CaughtAt != 0 && weight == a.CaughtAt {
			return append(list, Expectation{Title: "aborted", When: AtAbort})
		}
	}
	return append(list,
		Expectation{Title: "all steps done", Step: int32(count), Weight: 100, Split: c.Split(100), Share: 100},
		Expectation{Title: "promoted", When: AtPromotion, Share: 100},
	)
}

// Promotes says whether a person goes on from where the Rollout is as seen: from
// a pause without an end, unless that is where the analysis has to end the act.
func (a Act) Promotes(c Canary, seen Seen) bool {
	if seen.Aborted || seen.Promoted || int(seen.Step) >= len(c.Steps) {
		return false
	}
	if a.CaughtAt != 0 && c.weightAt(seen.Step) == a.CaughtAt {
		return false
	}
	pause := c.Steps[seen.Step].Pause
	return seen.Paused && pause != nil && pause.Duration == nil
}

// describeStep shows a step as it is written in the spec.
func describeStep(step v1alpha1.CanaryStep) string {
	switch {
	case step.SetWeight != nil:
		return fmt.Sprintf("setWeight %d", *step.SetWeight)
	case step.Pause != nil && step.Pause.Duration != nil:
		duration := step.Pause.Duration.String()
		if strings.Trim(duration, "0123456789") == "" {
			duration += "s" // a number is of seconds
		}
		return "pause " + duration
	case step.Pause != nil:
		return "pause"
	case step.SetCanaryScale != nil:
		return "setCanaryScale"
	case step.Experiment != nil:
		return "experiment"
	case step.Analysis != nil:
		return "analysis"
	default:
		return "step"
	}
}
