package demo

import (
	"cmp"
	"encoding/json"
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
	// ByHand is set for a canary without an analysis: the demo aborts it at CaughtAt.
	ByHand bool
	// Look names the commands of the guide that are run at the first pause.
	Look string
}

// heading names the act and its version.
func (a Act) heading() string { return tagOf(a.Image) + ": " + a.Title }

// Canary is the part of a Rollout's spec that the demo follows.
type Canary struct {
	// Router is the Rollout's traffic router; Kedify if it is empty.
	Router Router
	// Rollout, Stable and Canary are the names of the Rollout and of its two
	// Services.
	Rollout, Stable, Canary string
	Steps                   []v1alpha1.CanaryStep
}

// canaryOf reads a Canary from a Rollout of a router.
func canaryOf(ro *v1alpha1.Rollout, router Router) (Canary, error) {
	strategy := ro.Spec.Strategy.Canary
	if strategy == nil || len(strategy.Steps) == 0 {
		return Canary{}, fmt.Errorf("Rollout %s/%s: spec.strategy.canary.steps is missing: the demo shows a canary's steps", ro.Namespace, ro.Name)
	}
	return Canary{Router: router, Rollout: ro.Name, Stable: strategy.StableService, Canary: strategy.CanaryService, Steps: strategy.Steps}, nil
}

// Split returns what the router must have written at a weight of 0..100, with the
// header route header unless that is nil. With Kedify it is the text of the
// annotation; "" stands for no annotation.
func (c Canary) Split(weight int32, header *v1alpha1.SetHeaderRoute) string {
	if c.Router == GatewayAPI {
		return c.routeSplit(weight, header)
	}
	if weight == 0 {
		return ""
	}
	return fmt.Sprintf("- service: %s\n  weight: %d\n- service: %s\n  weight: %d\n", c.Stable, 100-weight, c.Canary, weight)
}

// weightAt returns the weight of the last setWeight up to and including a step; 0 if
// there is none.
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
	// When and Step say when it is asked for. Steps count from 0, and the number of
	// steps stands for the end of the last.
	When Moment
	Step int32
	// Weight is what the Rollout must report, verified.
	Weight int32
	// Split is what the router must have written, as Canary.Split returns it.
	Split string
	// Share is the percentage of requests that the new version must get: the
	// weight, but all of them once it is the stable version.
	Share int32
	// HeaderShare is the same percentage of the requests with the header of a header
	// route: Share, but 100 while that route exists.
	HeaderShare int32
}

// Expect returns what must be seen during an act, in order, from the moment
// the new image is set.
func (a Act) Expect(c Canary) []Expectation {
	var list []Expectation
	var header *v1alpha1.SetHeaderRoute
	count := len(c.Steps)
	weight := int32(0)
	add := func(title string, when Moment, step int32) {
		e := Expectation{Title: title, When: when, Step: step, Weight: weight, Split: c.Split(weight, header), Share: weight, HeaderShare: weight}
		if header != nil {
			e.HeaderShare = 100
		}
		list = append(list, e)
	}
	// end adds the removal of the header route, if there is one, and then that of the
	// weight. The second follows too soon for requests with the header to tell the
	// two apart, so that HeaderShare is the final share in both.
	end := func(title string, when Moment, share int32) []Expectation {
		if header != nil {
			header = nil
			add("no header route", when, 0)
			list[len(list)-1].HeaderShare = share
		}
		weight = 0
		add(title, when, 0)
		last := &list[len(list)-1]
		last.Share, last.HeaderShare = share, share
		return list
	}
	for i, step := range c.Steps {
		switch {
		case step.SetWeight != nil:
			weight = *step.SetWeight
		case step.SetHeaderRoute != nil && len(step.SetHeaderRoute.Match) > 0:
			header = step.SetHeaderRoute
		case step.SetHeaderRoute != nil:
			header = nil
		default:
			continue
		}
		add(fmt.Sprintf("%d/%d %s", i+1, count, describeStep(step)), AtStep, int32(i))
		if step.SetWeight != nil && a.CaughtAt != 0 && weight == a.CaughtAt {
			return end("aborted", AtAbort, 0)
		}
	}
	weight = 100
	add("all steps done", AtStep, int32(count))
	return end("promoted", AtPromotion, 100)
}

// Command returns what the demo is to do with a Rollout in the state seen, "promote" or
// "abort": at a pause without a duration, unless the analysis has to end the act there.
func (a Act) Command(c Canary, seen Seen) string {
	if seen.Aborted || seen.Promoted || int(seen.Step) >= len(c.Steps) {
		return ""
	}
	pause := c.Steps[seen.Step].Pause
	caught := a.CaughtAt != 0 && c.weightAt(seen.Step) == a.CaughtAt
	switch {
	case !seen.Paused || pause == nil || pause.Duration != nil || caught && !a.ByHand:
		return ""
	case caught:
		return "abort"
	}
	return "promote"
}

// describeStep shows a step as it is written in the spec.
func describeStep(step v1alpha1.CanaryStep) string {
	switch {
	case step.SetWeight != nil:
		return fmt.Sprintf("setWeight %d", *step.SetWeight)
	case step.Pause != nil && step.Pause.Duration != nil:
		duration := step.Pause.Duration.String()
		if strings.Trim(duration, "0123456789") == "" {
			duration += "s" // a plain number is in seconds
		}
		return "pause " + duration
	case step.Pause != nil:
		return "pause"
	case step.SetCanaryScale != nil:
		return "setCanaryScale"
	case step.SetHeaderRoute != nil:
		return "setHeaderRoute " + step.SetHeaderRoute.Name
	case step.Experiment != nil:
		return "experiment"
	case step.Analysis != nil:
		return "analysis"
	case step.Plugin != nil:
		return describePlugin(step.Plugin)
	default:
		return "step"
	}
}

// describePlugin names a plugin step: by its preset, or else by the plugin.
func describePlugin(step *v1alpha1.PluginStep) string {
	var config struct {
		Use string `json:"use"`
	}
	_ = json.Unmarshal(step.Config, &config) // the plugin says what is wrong with it
	return cmp.Or(config.Use, step.Name)
}
