package demo

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// table shows each step of all acts, what was wrong, and in one sentence whether
// everything was as claimed. took is how long the demo has lasted.
func table(outcomes []Outcome, proxy Proxy, took time.Duration) []Line {
	rows := [][]string{{"STEP", "REQUESTS", "NEW ASKED", "NEW SEEN", "FAILED", ""}}
	styles := []Style{Bold}
	for _, o := range outcomes {
		rows = append(rows, []string{o.Act.heading()})
		styles = append(styles, Bold)
		addStages := func(margin string, stages []Stage) {
			for _, s := range stages {
				row := o.row(s)
				row[0] = margin + row[0]
				rows = append(rows, row)
				styles = append(styles, styleOf(s.OK()))
			}
		}
		addStages("  ", o.Stages)
		if o.Header != "" {
			rows = append(rows, []string{"  with the header " + o.Header})
			styles = append(styles, Plain)
			addStages("    ", o.HeaderStages)
		}
	}
	lines := []Line{{}}
	for i, text := range align(rows) {
		lines = append(lines, Line{"  " + text, styles[i]})
	}
	lines = append(lines, Line{},
		Line{"  NEW: the new version's share. ✓: the split and the verified weight are", Dim},
		Line{fmt.Sprintf("  the step's; %d requests or more came while nothing changed, in that share", leastJudged), Dim},
		Line{"  (" + proxy.allows() + ");", Dim},
		Line{"  and none failed but a bad version's own.", Dim})
	for _, o := range outcomes {
		lines = append(lines, o.summary()...)
		for _, problem := range o.Problems() {
			lines = append(lines, Line{fmt.Sprintf("  ✗ %s: %s", tagOf(o.Act.Image), problem), Bad})
		}
	}
	return append(lines, Line{}, verdict(outcomes, took))
}

func (o Outcome) row(s Stage) []string {
	share, failed, mark := "-", fmt.Sprint(len(s.Failed)+len(s.Misrouted)), "✗"
	if s.Steady > 0 {
		share = fmt.Sprintf("%.1f %% of %d", 100*float64(s.New)/float64(s.Steady), s.Steady)
	}
	if s.Own > 0 {
		own := fmt.Sprintf("%d by %s", s.Own, o.Versions.New)
		if failed == "0" {
			failed = own
		} else {
			failed += ", " + own
		}
	}
	if s.OK() {
		mark = "✓"
	}
	return []string{s.Title, fmt.Sprint(s.Requests), fmt.Sprintf("%d %%", s.Share), share, failed, mark}
}

// summary says what a faulty version has cost.
func (o Outcome) summary() []Line {
	if !o.Versions.Faulty || o.exposure.Served == 0 {
		return nil
	}
	if last := o.Stages[len(o.Stages)-1]; !last.OK() {
		return []Line{{fmt.Sprintf("  %s: %d of its %d requests failed; not all traffic was seen to be back.",
			tagOf(o.Act.Image), o.exposure.Failed, o.exposure.Served), Bad}}
	}
	return []Line{{fmt.Sprintf("  %s: %s from its first request to all traffic being back; %d of its %d failed.",
		tagOf(o.Act.Image), delay(o.exposure.Lasted), o.exposure.Failed, o.exposure.Served), Plain}}
}

// verdict is the demo in one sentence.
func verdict(outcomes []Outcome, took time.Duration) Line {
	requests, own := 0, 0
	for _, o := range outcomes {
		for _, s := range slices.Concat(o.Stages, o.HeaderStages) {
			requests += s.Requests
			own += s.Own
		}
	}
	if exitCode(outcomes) != 0 {
		return Line{fmt.Sprintf("Not everything was as claimed: see ✗ above (%s, %d requests).", took.Round(time.Second), requests), Bad}
	}
	if own == 0 {
		return Line{fmt.Sprintf("As claimed, in %s: none of %d requests failed.", took.Round(time.Second), requests), Good}
	}
	return Line{fmt.Sprintf("As claimed, in %s: of %d requests %d failed, all of them the bad version's own.",
		took.Round(time.Second), requests, own), Good}
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
