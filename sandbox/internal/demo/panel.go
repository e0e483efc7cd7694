package demo

import (
	"fmt"
	"strings"
)

const barWidth = 40

// panel is what a terminal shows of the present moment.
func panel(c Canary, seen Seen, live Live, next string) []Line {
	status := seen.Phase
	if seen.Message != "" {
		status += ": " + seen.Message
	}
	weight := fmt.Sprintf("%3d %s", seen.Weight, bar(seen.Weight))
	if seen.Verified {
		weight += " verified"
	}
	lines := []Line{
		{strings.Repeat("─", 76), Dim},
		{field("Rollout", status), Bold},
		{field("image", seen.Image), Plain},
		{field("pods", fmt.Sprintf("%d, %d of them new, %d ready", seen.Replicas, seen.Updated, seen.Ready)), Plain},
		{field("steps", steps(c, seen)), Plain},
		{field("canary weight", weight), Plain},
	}
	lines = append(lines, live.panel()...)
	lines = append(lines, splitLines(c.Router.carrier(), seen.Split)...)
	if next != "" {
		lines = append(lines, Line{field("next", next), Dim})
	}
	return lines
}

func field(name, value string) string { return fmt.Sprintf("  %-14s %s", name, value) }

// splitLines shows a split as the router has written it.
func splitLines(name, split string) []Line {
	if split == "" {
		return []Line{{field(name, "none"), Plain}}
	}
	var lines []Line
	for line := range strings.Lines(split) {
		lines = append(lines, Line{field(name, strings.TrimRight(line, "\n")), Good})
		name = ""
	}
	return lines
}

func bar(weight int32) string {
	full := int(weight) * barWidth / 100
	return strings.Repeat("█", full) + strings.Repeat("░", barWidth-full)
}

// steps shows which steps are done, which one is under way, and which are to come. A
// setWeight is shown as its weight alone, so that the guide's six steps fit 80
// columns.
func steps(c Canary, seen Seen) string {
	list := make([]string, 0, len(c.Steps))
	for i, step := range c.Steps {
		mark := "·"
		switch {
		case seen.Aborted:
			mark = "-"
		case int32(i) < seen.Step:
			mark = "✓"
		case int32(i) == seen.Step:
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

// changes tells what is different between two moments, a line each.
func changes(c Canary, before, now Seen) []string {
	var list []string
	// An abort goes back to the first step, which is nothing to tell.
	if now.Aborted != before.Aborted || now.Step != before.Step && !now.Aborted {
		switch {
		case now.Aborted:
			list = append(list, "Rollout     aborted")
		case int(now.Step) < len(c.Steps):
			list = append(list, fmt.Sprintf("Rollout     step %d/%d: %s", now.Step+1, len(c.Steps), describeStep(c.Steps[now.Step])))
		default:
			list = append(list, "Rollout     all steps done")
		}
	}
	if now.Phase != before.Phase {
		phase := "Rollout     " + now.Phase
		if now.Message != "" {
			phase += ": " + now.Message
		}
		list = append(list, phase)
	}
	if c.Router == Guide && now.Replicas != before.Replicas {
		pods := fmt.Sprintf("pods        %d", now.Replicas)
		if now.Updated < now.Replicas {
			pods += fmt.Sprintf(", %d of them new", now.Updated)
		}
		list = append(list, pods)
	}
	if now.Split != before.Split {
		list = append(list, fmt.Sprintf("%-10s  %s", c.Router.carrier(), oneLine(now.Split)))
	}
	if now.Weight != before.Weight || now.Verified != before.Verified {
		verified := "not verified yet"
		if now.Verified {
			verified = "verified"
		}
		list = append(list, fmt.Sprintf("weight      %d, %s", now.Weight, verified))
	}
	return list
}

// oneLine shows a split on one line: "stable=80, canary=20".
func oneLine(split string) string {
	if split == "" {
		return "none"
	}
	short := strings.NewReplacer("- service: ", "", "\n  weight: ", "=").Replace(strings.TrimSpace(split))
	return strings.Join(strings.Split(short, "\n"), ", ")
}
