package demo

import (
	"fmt"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
)

// liveWindow is the number of answers that the live shares are computed from.
const liveWindow = 100

// Live is what a person sees of the requests while they are sent.
type Live struct {
	Versions Versions
	// Sent and Errors count all requests so far; Own counts the errors that a faulty
	// version made itself.
	Sent, Errors, Own int
	// Last is the latest answers, at most liveWindow, and Rate how many requests a
	// second they were.
	Last traffic.Counts
	Rate float64
}

// add takes in all[from:], where all are the answers so far in the order in which
// they were sent. Each answer has to be added exactly once.
func (l *Live) add(all []traffic.Answer, from int) {
	l.Sent = len(all)
	for _, a := range all[from:] {
		if a.Failed() {
			l.Errors++
		}
		if l.Versions.own(a) {
			l.Own++
		}
	}
	last := all[max(0, len(all)-liveWindow):]
	l.Last = traffic.Count(last)
	if n := len(last); n > 1 {
		l.Rate = float64(n-1) / max(last[n-1].Sent.Sub(last[0].Sent).Seconds(), 0.001)
	}
}

// ansi are the colours of the demo's images as a terminal has them.
var ansi = map[string]Style{
	"red": "31", "green": "32", "yellow": "33", "blue": "34", "purple": "35", "orange": "38;5;208",
}

// panel shows a bar in its colour for each version, and how many requests there
// were; nothing before the first.
func (l Live) panel() []Line {
	if l.Sent == 0 {
		return nil
	}
	lines := []Line{
		l.bar(l.Versions.Old),
		l.bar(l.Versions.New),
	}
	total := fmt.Sprintf("%d, %.0f a second, %s; the bars are of the last %d", l.Sent, l.Rate, l.failed(), l.Last.Requests)
	style := Plain
	if l.Errors > l.Own {
		style = Bad
	}
	return append(lines, Line{field("requests", total), style})
}

func (l Live) bar(colour string) Line {
	percent := percentage(l.Last.Backends[colour], l.Last.Requests)
	return Line{field(colour, fmt.Sprintf("%3d %s", percent, bar(int32(percent)))), ansi[colour]}
}

// line shows the same without colours, on one line.
func (l Live) line() string {
	const width = 20
	fresh := percentage(l.Last.Backends[l.Versions.New], l.Last.Requests)
	cells := (fresh*width + 50) / 100
	shares := fmt.Sprintf("%d %s", l.Last.Backends[l.Versions.New], l.Versions.New)
	if l.Versions.Old != "" {
		shares = fmt.Sprintf("%d %s, ", l.Last.Backends[l.Versions.Old], l.Versions.Old) + shares
	}
	return fmt.Sprintf("requests    %s%s  %s of the last %d; %d sent, %.0f a second, %s",
		strings.Repeat("█", width-cells), strings.Repeat("▒", cells), shares, l.Last.Requests, l.Sent, l.Rate, l.failed())
}

// failed says how many requests failed, and by whose fault if it is known.
func (l Live) failed() string {
	text := fmt.Sprintf("%d failed", l.Errors)
	switch l.Own {
	case 0:
		return text
	case l.Errors:
		return text + " by " + l.Versions.New
	default:
		return text + fmt.Sprintf(", %d by %s", l.Own, l.Versions.New)
	}
}

func percentage(part, whole int) int {
	if whole == 0 {
		return 0
	}
	return (100*part + whole/2) / whole
}
