package demo

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/traffic"
)

const (
	// settle is how long after the demo has seen an annotation requests may still
	// be split as before.
	settle = time.Second
	// ahead is how much later than the proxy the demo may learn of an annotation.
	ahead = 500 * time.Millisecond

	// listed is how many requests of a kind the demo names one by one.
	listed = 3
)

// Versions are the colours of the two versions in an act.
type Versions struct{ Old, New string }

// Stage is what became of the requests that were sent from one annotation to the
// next.
type Stage struct {
	Title string
	// Share is the percentage of requests asked for the new version.
	Share    int32
	Requests int
	// Failed are those that got no proper answer, Misrouted those that a version
	// has answered which had no share then.
	Failed, Misrouted []traffic.Answer
	// Steady is how many of the requests the share is judged by: those that were
	// under way at no change; New is how many of them the new version answered.
	Steady, New int
	// First is the time from the annotation to the first answer of the new
	// version after it; it means nothing unless HasFirst.
	First    time.Duration
	HasFirst bool
	// ShareError says what is wrong with the share; nil if nothing is.
	ShareError error
}

// OK says whether no request failed, and each went where it should.
func (s Stage) OK() bool {
	return len(s.Failed) == 0 && len(s.Misrouted) == 0 && s.ShareError == nil
}

// span is the time between two annotations; a zero time is without bound.
type span struct{ begin, end time.Time }

// JudgeRequests says what became of the requests of an act. The first stage is
// before the first annotation; then there is one for each result, which is empty
// where its annotation never came.
func JudgeRequests(results []Result, answers []traffic.Answer, v Versions, proxy Proxy) []Stage {
	stages, spans := stagesOf(results)
	steady := make([][]traffic.Answer, len(stages))
	for _, a := range answers {
		at := stageAt(spans, a.Sent)
		s := &stages[at]
		s.Requests++
		switch {
		case a.Failed():
			s.Failed = append(s.Failed, a)
			continue
		case !permitted(stages, spans, a, v):
			s.Misrouted = append(s.Misrouted, a)
			continue
		}
		if a.Backend == v.New && !s.HasFirst && !spans[at].begin.IsZero() && !a.Received.Before(spans[at].begin) {
			s.First, s.HasFirst = a.Received.Sub(spans[at].begin), true
		}
		if isSteady(spans[at], a) {
			steady[at] = append(steady[at], a)
		}
	}
	for i := range stages {
		s := &stages[i]
		s.Steady, s.New = len(steady[i]), traffic.Count(steady[i]).Backends[v.New]
		if present(spans[i], i) {
			s.ShareError = proxy.check(steady[i], v.New, s.Share)
		}
	}
	// A stage between two others may be too short for that.
	if last := &stages[len(stages)-1]; last.Steady == 0 && last.ShareError == nil {
		last.ShareError = errors.New("no request was sent when it had settled")
	}
	return stages
}

// stagesOf makes the stages of an act, without requests, and says when they
// were.
func stagesOf(results []Result) ([]Stage, []span) {
	stages := []Stage{{Title: "before"}}
	spans := []span{{}}
	for _, r := range results {
		stages = append(stages, Stage{Title: r.Title, Share: r.Share})
		spans = append(spans, span{begin: r.Present})
	}
	var next time.Time
	for i := range slices.Backward(spans) {
		spans[i].end = next
		if !spans[i].begin.IsZero() {
			next = spans[i].begin
		}
	}
	return stages, spans
}

// present says whether there was such a stage: its annotation came, and was not
// asked for again at once.
func present(s span, index int) bool {
	return index == 0 || !s.begin.IsZero() && !s.begin.Equal(s.end)
}

// stageAt returns the index of the stage at a time.
func stageAt(spans []span, at time.Time) int {
	for i := range slices.Backward(spans) {
		if begin := spans[i].begin; !begin.IsZero() && !at.Before(begin) {
			return i
		}
	}
	return 0
}

// permitted says whether the version that has answered had a share at some time
// during the request.
func permitted(stages []Stage, spans []span, a traffic.Answer, v Versions) bool {
	for i, s := range spans {
		if !present(s, i) ||
			!s.begin.IsZero() && a.Received.Before(s.begin.Add(-ahead)) ||
			!s.end.IsZero() && a.Sent.After(s.end.Add(settle)) {
			continue
		}
		if a.Backend == v.Old && stages[i].Share < 100 || a.Backend == v.New && stages[i].Share > 0 {
			return true
		}
	}
	return false
}

// isSteady says whether a request was under way at a time at which the split of
// a span was the only one there was.
func isSteady(s span, a traffic.Answer) bool {
	return (s.begin.IsZero() || !a.Sent.Before(s.begin.Add(settle))) &&
		(s.end.IsZero() || !a.Received.After(s.end.Add(-ahead)))
}

// stageProblems says in words what was not as asked.
func stageProblems(stages []Stage) []string {
	var list []string
	for _, s := range stages {
		list = append(list, named(s.Title, "failed", s.Failed)...)
		list = append(list, named(s.Title, "went to a version without a share", s.Misrouted)...)
		if s.ShareError != nil {
			list = append(list, fmt.Sprintf("%s: %v", s.Title, s.ShareError))
		}
	}
	return list
}

// named counts answers and names the first of them.
func named(title, what string, answers []traffic.Answer) []string {
	if len(answers) == 0 {
		return nil
	}
	list := []string{fmt.Sprintf("%s: %d requests %s", title, len(answers), what)}
	for _, a := range answers[:min(len(answers), listed)] {
		list = append(list, "  "+a.String())
	}
	return list
}

// colourOf returns the colour of an image, which is what its program answers.
func colourOf(image string) string {
	_, tag, _ := strings.Cut(image, ":")
	return tag
}
