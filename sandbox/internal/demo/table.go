package demo

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Outcome is how an act went.
type Outcome struct {
	Act       Act
	Judgement Judgement
	Requests  []Stage
}

// OK says whether everything was as asked, of the Rollout and of the requests.
func (o Outcome) OK() bool {
	return o.Judgement.OK() && !slices.ContainsFunc(o.Requests, func(s Stage) bool { return !s.OK() })
}

// table shows what was seen at each step of all acts, what became of the
// requests, and what was wrong.
func table(outcomes []Outcome, proxy Proxy) []Line {
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
	lines = append(lines, requestTable(outcomes, proxy)...)
	for _, o := range outcomes {
		for _, problem := range append(o.Judgement.Problems(), stageProblems(o.Requests)...) {
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

// requestTable shows what became of the requests at each step of all acts.
func requestTable(outcomes []Outcome, proxy Proxy) []Line {
	rows := [][]string{{"STEP", "REQUESTS", "SHARE ASKED", "SHARE SEEN", "ERRORS", "FIRST ANSWER", ""}}
	styles := []Style{Bold}
	for _, o := range outcomes {
		rows = append(rows, []string{o.Act.Title})
		styles = append(styles, Bold)
		for _, s := range o.Requests {
			rows = append(rows, stageRow(s))
			styles = append(styles, styleOf(s.OK()))
		}
	}
	lines := []Line{{}}
	for i, text := range align(rows) {
		lines = append(lines, Line{"  " + text, styles[i]})
	}
	return append(lines, Line{},
		Line{"  SHARE: of the new version; SEEN: while nothing changes, from " + delay(settle) + " after an annotation", Dim},
		Line{"  on. ERRORS: no proper answer, or one of a version without a share. FIRST ANSWER:", Dim},
		Line{"  from the demo's watch seeing the annotation to the new version's next answer; its", Dim},
		Line{fmt.Sprintf("  wait for its turn, of %d requests a second, is part of it. ✓: no errors, and the", rate), Dim},
		Line{"  share is as asked, " + proxy.allows() + ".", Dim})
}

func stageRow(s Stage) []string {
	share, first, mark := "-", "-", "✗"
	if s.Steady > 0 {
		share = fmt.Sprintf("%.1f %% of %d", 100*float64(s.New)/float64(s.Steady), s.Steady)
	}
	if s.HasFirst {
		first = delay(s.First)
	}
	if s.OK() {
		mark = "✓"
	}
	return []string{"  " + s.Title, fmt.Sprint(s.Requests), fmt.Sprintf("%d %%", s.Share), share, fmt.Sprint(len(s.Failed) + len(s.Misrouted)), first, mark}
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
