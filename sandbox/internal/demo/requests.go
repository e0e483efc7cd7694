package demo

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
)

const (
	// ahead is how much later than the proxy the demo may learn of a split.
	ahead = 500 * time.Millisecond

	// leastJudged is how many requests a step is judged by at least, whatever its
	// share is.
	leastJudged = traffic.Window

	// listed is how many requests of a kind the demo names one by one.
	listed = 3
)

// Versions are the colours of the two versions in an act.
type Versions struct {
	Old, New string
	// Faulty says that the new version fails some of its requests. Such a failure is
	// expected, and counts as the version's own.
	Faulty bool
}

// own says whether the failure of a request is an expected one of the new version.
func (v Versions) own(a traffic.Answer) bool {
	return v.Faulty && a.Failed() && a.FailedBackend == v.New
}

// servedBy returns the version that has answered, or has failed the request by
// itself; "" for none.
func servedBy(a traffic.Answer) string {
	if a.Failed() {
		return a.FailedBackend
	}
	return a.Backend
}

// Stage is what became of the requests that were sent while one share was asked
// for: from a split to the next that asks for another share.
type Stage struct {
	Title string
	// Results are those of the expectations that ask for the share, none for the
	// time before the first.
	Results []Result
	// Share is the percentage of requests asked for the new version.
	Share    int32
	Requests int
	// Own is how many requests a faulty new version has failed.
	Own int
	// Failed are the requests without a proper answer, except a faulty version's own
	// failures; Misrouted are those that a version served while it had no share.
	Failed, Misrouted []traffic.Answer
	// Steady is how many requests the stage is judged by: those during which the
	// split did not change; New is how many of them the new version served.
	Steady, New int
	// Problem says why the share is not as asked, or cannot be told; nil if it is as
	// asked.
	Problem error
}

// OK says whether the objects showed what was asked for, the requests were enough to
// judge and went where they should, and none failed except a faulty version's own.
func (s Stage) OK() bool {
	return len(s.Failed) == 0 && len(s.Misrouted) == 0 && s.Problem == nil &&
		!slices.ContainsFunc(s.Results, func(r Result) bool { return !r.OK() })
}

// span is the time between two splits; a zero time is without bound.
type span struct{ begin, end time.Time }

// JudgeRequests returns the stages of an act. The first stage is before the first
// split; then there is one for each share that is asked for next, which has no
// requests if its split never came.
func JudgeRequests(results []Result, answers []traffic.Answer, v Versions, proxy Proxy) []Stage {
	stages, spans := stagesOf(results)
	steady := make([][]traffic.Answer, len(stages))
	for _, a := range answers {
		at := stageAt(spans, a.Sent)
		s := &stages[at]
		s.Requests++
		own := v.own(a)
		switch {
		case a.Failed() && !own:
			s.Failed = append(s.Failed, a)
			continue
		case !permitted(stages, spans, a, v, proxy):
			s.Misrouted = append(s.Misrouted, a)
			continue
		case own:
			s.Own++
			// For the share, a failure of the faulty version's own counts like an
			// answer of that version.
			a.Backend, a.Problem = v.New, ""
		}
		if isSteady(spans[at], a, proxy) {
			steady[at] = append(steady[at], a)
		}
	}
	for i := range stages {
		s := &stages[i]
		s.Steady, s.New = len(steady[i]), traffic.Count(steady[i]).Backends[v.New]
		if s.Steady < leastJudged {
			s.Problem = fmt.Errorf("%d requests while nothing changed are too few to tell where they go; it takes %d", s.Steady, leastJudged)
		} else {
			s.Problem = proxy.check(steady[i], v.New, s.Share)
		}
	}
	return stages
}

// stagesOf makes the stages of an act, without requests, and says when they
// were. Results that ask for the same share one after the other are one stage:
// between them nothing changes for a request.
func stagesOf(results []Result) ([]Stage, []span) {
	stages := []Stage{{Title: "before"}}
	spans := []span{{}}
	for _, r := range results {
		last := len(stages) - 1
		if s := &stages[last]; s.Share == r.Share {
			s.Results = append(s.Results, r)
			s.Title = titleOf(last == 0, s.Results)
			if last > 0 && spans[last].begin.IsZero() {
				spans[last].begin = r.Present
			}
			continue
		}
		stages = append(stages, Stage{Title: r.Title, Results: []Result{r}, Share: r.Share})
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

// titleOf names a stage after the results that ask for its share: with up to two
// titles, or else with the first and the last.
func titleOf(before bool, results []Result) string {
	titles := make([]string, 0, len(results)+1)
	if before {
		titles = append(titles, "before")
	}
	for _, r := range results {
		titles = append(titles, r.Title)
	}
	if len(titles) > 2 {
		return titles[0] + " … " + titles[len(titles)-1]
	}
	return strings.Join(titles, ", ")
}

// present says whether a stage took place: it is the first, or its split came.
func present(s span, index int) bool { return index == 0 || !s.begin.IsZero() }

// stageAt returns the index of the stage at a time.
func stageAt(spans []span, at time.Time) int {
	for i := range slices.Backward(spans) {
		if begin := spans[i].begin; !begin.IsZero() && !at.Before(begin) {
			return i
		}
	}
	return 0
}

// permitted says whether the version that has served a request had a share at some
// time during the request.
func permitted(stages []Stage, spans []span, a traffic.Answer, v Versions, proxy Proxy) bool {
	for i, s := range spans {
		if !present(s, i) ||
			!s.begin.IsZero() && a.Received.Before(s.begin.Add(-ahead)) ||
			!s.end.IsZero() && a.Sent.After(s.end.Add(proxy.settle())) {
			continue
		}
		if by := servedBy(a); by == v.Old && stages[i].Share < 100 || by == v.New && stages[i].Share > 0 {
			return true
		}
	}
	return false
}

// isSteady says whether the split of a span was the only one in effect during a
// request.
func isSteady(s span, a traffic.Answer, proxy Proxy) bool {
	return (s.begin.IsZero() || !a.Sent.Before(s.begin.Add(proxy.settle()))) &&
		(s.end.IsZero() || !a.Received.After(s.end.Add(-ahead)))
}

// withHeader returns the results by which to judge requests with the header of a
// header route: HeaderShare is their Share.
func withHeader(results []Result) []Result {
	list := slices.Clone(results)
	for i := range list {
		list[i].Share = list[i].HeaderShare
	}
	return list
}

// stageProblems says in words what was not as asked.
func stageProblems(stages []Stage) []string {
	var list []string
	for _, s := range stages {
		list = append(list, named(s.Title, "failed", s.Failed)...)
		list = append(list, named(s.Title, "went to a version without a share", s.Misrouted)...)
		if s.Problem != nil {
			list = append(list, fmt.Sprintf("%s: %v", s.Title, s.Problem))
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

// exposure is what a faulty version has cost.
type exposure struct {
	// Served is how many requests it has got, Failed how many of them it failed.
	Served, Failed int
	// Lasted is the time from its first request being sent to its last answer:
	// after that all traffic was back.
	Lasted time.Duration
}

// exposureOf says what the new version has cost in an act, from answers in any order.
func exposureOf(answers []traffic.Answer, v Versions) exposure {
	var e exposure
	var first, last time.Time
	for _, a := range answers {
		if servedBy(a) != v.New {
			continue
		}
		if first.IsZero() || a.Sent.Before(first) {
			first = a.Sent
		}
		if a.Received.After(last) {
			last = a.Received
		}
		e.Served++
		if a.Failed() {
			e.Failed++
		}
	}
	e.Lasted = last.Sub(first)
	return e
}

// versionOf returns the colour that an image's program answers with, and whether
// it fails some of its requests.
func versionOf(image string) (colour string, faulty bool) {
	return strings.CutPrefix(tagOf(image), "bad-")
}

func tagOf(image string) string {
	_, tag, _ := strings.Cut(image, ":")
	return tag
}
