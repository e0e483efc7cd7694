package demo

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	batchv1 "k8s.io/api/batch/v1"
)

// The steps of checkout that are judged, by their index.
const (
	chatStep = 1 + iota
	smokeStep
	togetherStep
	regionsStep
)

// story is what was seen of all Rollouts, of the chat and of Jobs.
type story struct {
	// rollouts are the states of each Rollout, in their order.
	rollouts map[string][]stepsSeen
	// jobs are the Jobs, by name, with the time at which each was seen to have succeeded.
	jobs map[string]time.Time
	chat []said
	// refused are requests that the chat and the monitoring do not know.
	refused []string
}

// stepsSeen is a Rollout at one time.
type stepsSeen struct {
	at time.Time
	Status
	canary Canary
	steps  []v1alpha1.StepPluginStatus
}

// step returns what the Rollout says of its plugin step.
func (s stepsSeen) step(index int) v1alpha1.StepPluginStatus {
	for _, step := range s.steps {
		if int(step.Index) == index && step.Operation == v1alpha1.StepPluginOperationRun {
			return step
		}
	}
	return v1alpha1.StepPluginStatus{}
}

// rolledBack tells whether the canary is aborted and only the version before it runs.
func (s stepsSeen) rolledBack() bool {
	return s.Aborted && s.Updated == 0 && s.Replicas > 0 && s.Ready == s.Replicas
}

// begin forgets all states but the last ones.
func (s *story) begin() {
	for name, all := range s.rollouts {
		s.rollouts[name] = all[len(all)-1:]
	}
}

// add adds a state of a Rollout, and returns what is new in it.
func (s *story) add(name string, at time.Time, ro *v1alpha1.Rollout) []Line {
	status, current := statusOf(ro)
	if !current || ro.Spec.Strategy.Canary == nil {
		return nil
	}
	now := stepsSeen{at: at, Status: status, canary: Canary{Rollout: name, Steps: ro.Spec.Strategy.Canary.Steps}, steps: ro.Status.Canary.StepPluginStatuses}
	before, _ := s.last(name)
	s.rollouts[name] = append(s.rollouts[name], now)
	return stepsChanges(name, before, now)
}

func (s *story) addJob(job *batchv1.Job) {
	if s.jobs == nil {
		s.jobs = map[string]time.Time{}
	}
	ended := s.jobs[job.Name]
	if job.Status.Succeeded > 0 && ended.IsZero() {
		ended = time.Now()
	}
	s.jobs[job.Name] = ended
}

// last returns the present state of a Rollout; false if there is none.
func (s *story) last(name string) (stepsSeen, bool) {
	all := s.rollouts[name]
	if len(all) == 0 {
		return stepsSeen{}, false
	}
	return all[len(all)-1], true
}

// all tells whether something is true of each Rollout now.
func (s *story) all(is func(stepsSeen) bool) bool {
	return !slices.ContainsFunc(shop, func(name string) bool {
		last, seen := s.last(name)
		return !seen || !is(last)
	})
}

// first returns the first state of a Rollout of which something is true.
func (s *story) first(name string, is func(stepsSeen) bool) (stepsSeen, bool) {
	i := slices.IndexFunc(s.rollouts[name], is)
	if i < 0 {
		return stepsSeen{}, false
	}
	return s.rollouts[name][i], true
}

// waited tells whether a step of a Rollout was seen to wait for something that it names.
func (s *story) waited(name string, step int, what string) bool {
	_, seen := s.first(name, isAt(step, v1alpha1.StepPluginPhaseRunning, what))
	return seen
}

// isAt returns what is true of a Rollout whose step is in a phase, with a message that
// has a text.
func isAt(step int, phase v1alpha1.StepPluginPhase, text string) func(stepsSeen) bool {
	return func(s stepsSeen) bool {
		status := s.step(step)
		return status.Phase == phase && strings.Contains(status.Message, text)
	}
}

// told counts the messages in the chat that begin with a text.
func (s *story) told(text string) int {
	n := 0
	for _, message := range s.chat {
		if strings.HasPrefix(message.text, text) {
			n++
		}
	}
	return n
}

// longest is how much of a message is shown: a reason that has come through three Rollouts is
// long.
const longest = 200

// stepsChanges tells what is different between two states of a Rollout, a line each.
func stepsChanges(name string, before, now stepsSeen) []Line {
	var list []Line
	add := func(style Style, format string, args ...any) {
		list = append(list, Line{fmt.Sprintf("%-15s ", name) + fmt.Sprintf(format, args...), style})
	}
	count := len(now.canary.Steps)
	switch {
	case now.Aborted && !before.Aborted:
		add(Bad, "aborted")
	case now.Step != before.Step && !now.Aborted && int(now.Step) < count:
		add(Plain, "step %d/%d: %s", now.Step+1, count, describeStep(now.canary.Steps[now.Step]))
	}
	for _, status := range now.steps {
		index := int(status.Index)
		old := before.step(index)
		if status.Operation != v1alpha1.StepPluginOperationRun || status.Message == "" || index >= count ||
			status.Phase == old.Phase && status.Message == old.Message {
			continue
		}
		style := Dim
		if status.Phase == v1alpha1.StepPluginPhaseFailed {
			style = Bad
		}
		add(style, "%s", clip(status.Message, longest)) // it begins with the step's name
	}
	if now.rolledBack() && !before.rolledBack() {
		add(Good, "all its pods run the version before")
	}
	return list
}

// panel is what a terminal shows of the present moment.
func (s *story) panel() []Line {
	lines := []Line{{strings.Repeat("─", 76), Dim}}
	for _, name := range shop {
		now, seen := s.last(name)
		if !seen {
			continue
		}
		lines = append(lines,
			Line{field(name, steps(now.canary, Seen{Status: now.Status})), Plain},
			Line{field("", fmt.Sprintf("%s, %d pods, %d of them new", now.Phase, now.Replicas, now.Updated)), Dim})
	}
	return lines
}
