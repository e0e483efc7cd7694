package demo

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
)

// How the messages in the chat begin.
const (
	begunText      = "the canary of checkout has begun"
	rolledBackText = "checkout is rolled back"
)

// stepsVerdict is one thing that the demo of steps has claimed, and when it was seen.
type stepsVerdict struct {
	claim string
	at    time.Time
	// problem is what was seen instead; empty if it was as claimed.
	problem string
}

func (v stepsVerdict) ok() bool { return v.problem == "" }

// judgeSteps compares what was seen with what the demo of steps claims.
func judgeSteps(s story) []stepsVerdict {
	var all []stepsVerdict
	saw := func(claim, name string, is func(stepsSeen) bool) {
		v := stepsVerdict{claim: claim}
		if seen, ok := s.first(name, is); ok {
			v.at = seen.at
		} else {
			v.problem = "it was not seen; last, " + s.state(name)
		}
		all = append(all, v)
	}
	all = append(all, s.judgeChat("checkout tells the chat that its canary begins, once", begunText, stepsImage))
	all = append(all, s.judgeJob("a Job tests the new version"))
	saw("checkout waits for payments", checkout, isAt(togetherStep, v1alpha1.StepPluginPhaseRunning, payments))
	saw("and goes on when payments is there", checkout, isAt(togetherStep, v1alpha1.StepPluginPhaseSuccessful, payments))
	saw("checkout waits for the region eu", checkout, isAt(regionsStep, v1alpha1.StepPluginPhaseRunning, "eu"))
	saw("the canary in eu fails, and is rolled back", checkoutEU, stepsSeen.rolledBack)
	saw("so checkout's step fails", checkout, isAt(regionsStep, v1alpha1.StepPluginPhaseFailed, "eu"))
	saw("checkout is rolled back", checkout, stepsSeen.rolledBack)
	saw("payments is rolled back with it", payments, stepsSeen.rolledBack)
	all = append(all, s.judgeChat("the chat is told why, once", rolledBackText, "eu"))
	return append(all, s.judgeRest("nothing else happened"))
}

// judgeChat says whether the chat was told something once, with a text in it.
func (s *story) judgeChat(claim, begins, has string) stepsVerdict {
	v := stepsVerdict{claim: claim}
	i := slices.IndexFunc(s.chat, func(m said) bool { return strings.HasPrefix(m.text, begins) })
	switch n := s.told(begins); {
	case n != 1:
		v.problem = fmt.Sprintf("%d messages that begin with %q", n, begins)
	case !strings.Contains(s.chat[i].text, has):
		v.problem = fmt.Sprintf("the message does not name %s: %s", has, s.chat[i].text)
	default:
		v.at = s.chat[i].at
	}
	return v
}

// judgeJob says whether one Job was made, and has succeeded before checkout went on.
func (s *story) judgeJob(claim string) stepsVerdict {
	v := stepsVerdict{claim: claim}
	passed, ok := s.first(checkout, isAt(smokeStep, v1alpha1.StepPluginPhaseSuccessful, ""))
	switch {
	case len(s.jobs) != 1:
		v.problem = fmt.Sprintf("%d Jobs instead of 1", len(s.jobs))
	case !ok:
		v.problem = "its step has not succeeded; last, " + s.state(checkout)
	default:
		v.at = passed.at
	}
	for name, ended := range s.jobs {
		if ended.IsZero() {
			v.problem = fmt.Sprintf("Job %s has not succeeded", name)
		}
	}
	return v
}

// judgeRest says whether no canary was promoted and no request was one that nobody expects.
func (s *story) judgeRest(claim string) stepsVerdict {
	v := stepsVerdict{claim: claim}
	for _, name := range shop {
		if seen, promoted := s.first(name, func(s stepsSeen) bool { return s.Promoted && s.Image == stepsImage }); promoted {
			return stepsVerdict{claim, seen.at, name + " was promoted"}
		}
		if last, ok := s.last(name); ok && last.at.After(v.at) {
			v.at = last.at
		}
	}
	if len(s.refused) > 0 {
		v.problem = "requests that were refused: " + strings.Join(s.refused, "; ")
	}
	return v
}

// state says in words how a Rollout was seen last.
func (s *story) state(name string) string {
	last, ok := s.last(name)
	if !ok {
		return name + " was not seen at all"
	}
	count := len(last.canary.Steps)
	if int(last.Step) >= count {
		return fmt.Sprintf("%s was %s, with all steps done", name, last.Phase)
	}
	text := fmt.Sprintf("%s was %s at step %d of %d", name, last.Phase, last.Step+1, count)
	if message := last.step(int(last.Step)).Message; message != "" {
		text += ": " + message
	}
	return text
}

// stepsTable shows each claim, when it was seen since began, and in one sentence whether all
// was as claimed. took is how long the demo has lasted.
func stepsTable(all []stepsVerdict, began time.Time, took time.Duration) []Line {
	lines := []Line{{}}
	bad := false
	for _, v := range all {
		if v.ok() {
			lines = append(lines, Line{fmt.Sprintf("  ✓ %7.1fs  %s", v.at.Sub(began).Seconds(), v.claim), Good})
			continue
		}
		bad = true
		lines = append(lines, Line{fmt.Sprintf("  ✗ %8s  %s: %s", "", v.claim, v.problem), Bad})
	}
	if bad {
		return append(lines, Line{}, Line{fmt.Sprintf("Not everything was as claimed: see ✗ above (%s).", took.Round(time.Second)), Bad})
	}
	return append(lines, Line{}, Line{fmt.Sprintf("As claimed, in %s: one region failed, and all rolled back.", took.Round(time.Second)), Good})
}
