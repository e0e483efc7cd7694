package demo

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
)

func field(name, value string) string { return fmt.Sprintf("  %-14s %s", name, value) }

func label(name, text string) string { return fmt.Sprintf("%-14s  %s", name, text) }

const barWidth = 40

func bar(percent int) string {
	full := percent * barWidth / 100
	return strings.Repeat("█", full) + strings.Repeat("░", barWidth-full)
}

// stepOf returns the index of the current step; the number of steps when all are done.
func stepOf(ro *v1alpha1.Rollout) int {
	if ro.Status.CurrentStepIndex == nil {
		return 0
	}
	return int(*ro.Status.CurrentStepIndex)
}

// weightOf says how much traffic the canary has; "" without a traffic router.
func weightOf(ro *v1alpha1.Rollout) (weight int32, text string) {
	weights := ro.Status.Canary.Weights
	if weights == nil {
		return 0, ""
	}
	text = "not verified yet"
	if weights.Verified != nil && *weights.Verified {
		text = "verified"
	}
	return weights.Canary.Weight, text
}

// statusOf shows a phase with its reason.
func statusOf(ro *v1alpha1.Rollout) string {
	text := string(ro.Status.Phase)
	if ro.Status.Message != "" {
		text += ": " + ro.Status.Message
	}
	return text
}

func podsOf(ro *v1alpha1.Rollout) string {
	return fmt.Sprintf("%d pods, %d of them new, %d ready", ro.Status.Replicas, ro.Status.UpdatedReplicas, ro.Status.ReadyReplicas)
}

// rolloutPanel shows a Rollout at one time.
func rolloutPanel(name string, ro *v1alpha1.Rollout) []Line {
	lines := []Line{
		{field(name, statusOf(ro)), Bold},
		{field("", stepsOf(ro)), Plain},
		{field("", podsOf(ro)), Dim},
	}
	if weight, verified := weightOf(ro); verified != "" {
		lines = append(lines, Line{field("canary weight", fmt.Sprintf("%3d %s %s", weight, bar(int(weight)), verified)), Plain})
	}
	return lines
}

// stepsOf shows which steps are done, which one is under way, and which are to come. A
// setWeight is shown as its weight alone, so that the guide's six steps fit 80 columns.
func stepsOf(ro *v1alpha1.Rollout) string {
	var list []string
	for i, step := range ro.Spec.Strategy.Canary.Steps {
		mark := "·"
		switch now := stepOf(ro); {
		case ro.Status.Abort:
			mark = "-"
		case i < now:
			mark = "✓"
		case i == now:
			mark = "▶"
		}
		text := describeStep(step)
		if step.SetWeight != nil {
			text = fmt.Sprintf("%d %%", *step.SetWeight)
		}
		list = append(list, mark+" "+text)
	}
	return strings.Join(list, "   ")
}

// longest is how much of a step's message is shown: a reason that has come through three
// Rollouts is long.
const longest = 200

// changes tells what is different between two states of a Rollout, a line each.
func changes(before, now *v1alpha1.Rollout) []Line {
	var list []Line
	add := func(style Style, format string, args ...any) {
		list = append(list, Line{fmt.Sprintf(format, args...), style})
	}
	steps := now.Spec.Strategy.Canary.Steps
	switch step := stepOf(now); {
	case now.Status.Abort && !before.Status.Abort:
		add(Bad, "aborted")
	case now.Status.Abort || step == stepOf(before) && before.Status.Phase != "": // an abort goes back to the first step
	case step < len(steps):
		add(Plain, "step %d/%d: %s", step+1, len(steps), describeStep(steps[step]))
	default:
		add(Plain, "all steps done")
	}
	for _, status := range now.Status.Canary.StepPluginStatuses {
		old := stepStatus(before, status.Index)
		if status.Operation != v1alpha1.StepPluginOperationRun || status.Message == "" ||
			status.Phase == old.Phase && status.Message == old.Message {
			continue
		}
		style := Dim
		if status.Phase == v1alpha1.StepPluginPhaseFailed {
			style = Bad
		}
		add(style, "%s", clip(status.Message, longest)) // it begins with the step's name
	}
	if now.Status.Phase != before.Status.Phase {
		add(Plain, "%s", clip(statusOf(now), longest))
	}
	if now.Status.Replicas != before.Status.Replicas {
		add(Dim, "%s", podsOf(now))
	}
	weight, verified := weightOf(now)
	if was, wasVerified := weightOf(before); weight != was || verified != wasVerified {
		add(Plain, "weight %d, %s", weight, verified)
	}
	return list
}

// stepStatus returns what a Rollout says of a plugin step.
func stepStatus(ro *v1alpha1.Rollout, index int32) v1alpha1.StepPluginStatus {
	for _, status := range ro.Status.Canary.StepPluginStatuses {
		if status.Index == index && status.Operation == v1alpha1.StepPluginOperationRun {
			return status
		}
	}
	return v1alpha1.StepPluginStatus{}
}

// describeStep shows a step as it is written in the spec.
func describeStep(step v1alpha1.CanaryStep) string {
	switch {
	case step.SetWeight != nil:
		return fmt.Sprintf("setWeight %d", *step.SetWeight)
	case step.Pause != nil && step.Pause.Duration != nil:
		return "pause " + step.Pause.Duration.String()
	case step.Pause != nil:
		return "pause"
	case step.SetHeaderRoute != nil:
		return "setHeaderRoute " + step.SetHeaderRoute.Name
	case step.Plugin != nil:
		var config struct {
			Use string `json:"use"`
		}
		_ = json.Unmarshal(step.Plugin.Config, &config) // the plugin says what is wrong with it
		return cmp.Or(config.Use, step.Plugin.Name)
	}
	return "step"
}

// describeAnalysis says how far an analysis has come, on one line; "" before its first
// measurement.
func describeAnalysis(run *v1alpha1.AnalysisRun) (string, Style) {
	var count int32
	var last string
	for _, metric := range run.Status.MetricResults {
		count += metric.Successful + metric.Failed + metric.Inconclusive + metric.Error
		if n := len(metric.Measurements); n > 0 {
			last = cmp.Or(metric.Measurements[n-1].Message, metric.Measurements[n-1].Value)
		}
	}
	if count == 0 {
		return "", Plain
	}
	text := fmt.Sprintf("%s after measurement %d: %s", run.Status.Phase, count, last)
	if run.Status.Message != "" {
		text += ": " + run.Status.Message
	}
	if run.Status.Phase == v1alpha1.AnalysisPhaseFailed {
		return text, Bad
	}
	return text, Plain
}
