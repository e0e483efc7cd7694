package demo

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
)

// window is the number of answers that the live shares are computed from.
const window = 100

// requests is what a person sees of the requests while they are sent.
type requests struct {
	// colours are the versions that have answered, in the order of their first answers.
	colours []string
	// last counts the latest answers, window at most, by colour, and rate is how many
	// requests a second they were.
	last map[string]int
	rate float64
	// sent and failed count all requests so far; own counts those that a version has
	// failed itself, by colour.
	sent, failed int
	own          map[string]int
}

// requestsOf counts all answers so far, in the order in which the requests were sent.
func requestsOf(all []traffic.Answer) requests {
	r := requests{sent: len(all), last: map[string]int{}, own: map[string]int{}}
	for i, a := range all {
		colour := a.Backend
		if a.Failed() {
			colour = a.FailedBackend
			r.failed++
			r.own[colour]++
		}
		if colour != "" && !slices.Contains(r.colours, colour) {
			r.colours = append(r.colours, colour)
		}
		if i >= len(all)-window {
			r.last[colour]++
		}
	}
	last := all[max(0, len(all)-window):]
	if n := len(last); n > 1 {
		r.rate = float64(n-1) / max(last[n-1].Sent.Sub(last[0].Sent).Seconds(), 0.001)
	}
	return r
}

// counted is how many answers last has.
func (r requests) counted() int { return min(r.sent, window) }

// ansi are the colours of the demo's images as a terminal has them.
var ansi = map[string]Style{
	"red": "31", "green": "32", "yellow": "33", "blue": "34", "purple": "35", "orange": "38;5;208",
}

// panel shows a bar in its colour for each version, and how many requests there were.
func (r requests) panel() []Line {
	var lines []Line
	for _, colour := range r.colours {
		percent := 100 * r.last[colour] / r.counted()
		lines = append(lines, Line{field(colour, fmt.Sprintf("%3d %s", percent, bar(percent))), ansi[colour]})
	}
	return append(lines, Line{field("requests", fmt.Sprintf("%d, %.0f a second, %s; bars: the last %d", r.sent, r.rate, r.failures(), r.counted())), Plain})
}

// line shows the same without colours, on one line.
func (r requests) line() string {
	var cells, shares []string
	for i, colour := range r.colours {
		const width, shades = 20, "█▒░"
		cells = append(cells, strings.Repeat(string([]rune(shades)[i%3]), r.last[colour]*width/r.counted()))
		shares = append(shares, fmt.Sprintf("%d %s", r.last[colour], colour))
	}
	return label("requests", fmt.Sprintf("%s  %s of the last %d; %d sent, %.0f a second, %s",
		strings.Join(cells, ""), strings.Join(shares, ", "), r.counted(), r.sent, r.rate, r.failures()))
}

// failures says how many requests failed, and by which version if one has answered.
func (r requests) failures() string {
	text := fmt.Sprintf("%d failed", r.failed)
	for _, colour := range r.colours {
		if n := r.own[colour]; n > 0 {
			text += fmt.Sprintf(", %d by %s", n, colour)
		}
	}
	return text
}
