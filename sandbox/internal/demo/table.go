package demo

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Outcome is how an act went.
type Outcome struct {
	Act       Act
	Judgement Judgement
}

// table shows what was seen at each step of all acts, and what was wrong.
func table(outcomes []Outcome) []Line {
	rows := [][]string{{"STEP", "ASKED", "ROLLOUT", "ANNOTATION", "AFTER", ""}}
	styles := []Style{Bold}
	for _, o := range outcomes {
		rows = append(rows, []string{o.Act.Title})
		styles = append(styles, Bold)
		for _, r := range o.Judgement.Results {
			rows = append(rows, resultRow(r))
			styles = append(styles, styleOf(r.OK()))
		}
	}
	lines := []Line{{}}
	for i, text := range align(rows) {
		lines = append(lines, Line{"  " + text, styles[i]})
	}
	lines = append(lines, Line{},
		Line{"  AFTER: from the step being reached to the annotation being there; the start of", Dim},
		Line{"  the pods that the weight waits for is part of it. ✓: seen exactly as asked, in", Dim},
		Line{"  this order, nothing in between, and verified by the Rollout.", Dim})
	for _, o := range outcomes {
		for _, problem := range o.Judgement.Problems() {
			lines = append(lines, Line{fmt.Sprintf("  ✗ %s: %s", o.Act.Title, problem), Bad})
		}
	}
	return lines
}

func resultRow(r Result) []string {
	weight, split, after, mark := "-", "-", "-", "✗"
	if r.Seen {
		weight, split = fmt.Sprint(r.SeenWeight), oneLine(r.SeenSplit)
	}
	if !r.Present.IsZero() && !r.Asked.IsZero() {
		after = delay(r.Delay())
	}
	if r.OK() {
		mark = "✓"
	}
	return []string{"  " + r.Title, fmt.Sprint(r.Weight), weight, split, after, mark}
}

// delay shows a duration as precisely as it is worth: "35ms", "4.2s".
func delay(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

func styleOf(ok bool) Style {
	if ok {
		return Good
	}
	return Bad
}

// align makes lines of rows, their cells below one another. A row of a single
// cell is a heading and takes part in no column.
func align(rows [][]string) []string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if len(row) == 1 {
				continue
			}
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	lines := make([]string, 0, len(rows))
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell)
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
			}
		}
		lines = append(lines, strings.TrimRight(line.String(), " "))
	}
	return lines
}
