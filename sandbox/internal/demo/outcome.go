package demo

import (
	"fmt"
	"slices"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
)

// played is what was seen of an act.
type played struct {
	act       Act
	versions  Versions
	judgement Judgement
	analysis  Analysis
	last      Status
	// requests marks the first request that was sent during the act, and
	// headerRequests the first with a header; the first act also has the requests
	// before them.
	requests, headerRequests traffic.Mark
}

// Outcome is how an act went.
type Outcome struct {
	Act       Act
	Versions  Versions
	Judgement Judgement
	Stages    []Stage
	// Header is the header that a header route matches, as "X-Beta: yes", and
	// HeaderStages are the stages of the requests with it; empty where there is no
	// header route.
	Header       string
	HeaderStages []Stage
	Analysis     Analysis
	// Last is the Rollout at the end.
	Last     Status
	exposure exposure
}

// sent are all requests of the demo: those without, and those with the header of a
// header route, if there is one.
type sent struct {
	answers       []traffic.Answer
	header        string
	headerAnswers []traffic.Answer
}

// judgeActs gives each act the requests that were sent from its beginning to
// that of the next.
func judgeActs(acts []played, all sent, proxy Proxy) []Outcome {
	outcomes := make([]Outcome, len(acts))
	for i, a := range acts {
		answers := during(acts, i, all.answers, func(a played) traffic.Mark { return a.requests })
		headerAnswers := during(acts, i, all.headerAnswers, func(a played) traffic.Mark { return a.headerRequests })
		o := Outcome{
			Act: a.act, Versions: a.versions, Judgement: a.judgement, Analysis: a.analysis, Last: a.last,
			Stages:   JudgeRequests(a.judgement.Results, answers, a.versions, proxy),
			exposure: exposureOf(slices.Concat(answers, headerAnswers), a.versions),
		}
		if all.header != "" {
			o.Header = all.header
			o.HeaderStages = JudgeRequests(withHeader(a.judgement.Results), headerAnswers, a.versions, proxy)
		}
		outcomes[i] = o
	}
	return outcomes
}

// during returns the answers of an act; begin returns the mark at which those of an
// act begin.
func during(acts []played, act int, answers []traffic.Answer, begin func(played) traffic.Mark) []traffic.Answer {
	from, to := 0, len(answers)
	if act > 0 {
		from = int(begin(acts[act]))
	}
	if act+1 < len(acts) {
		to = int(begin(acts[act+1]))
	}
	return answers[from:to]
}

// Problems says in words what was not as claimed; it is empty if everything was.
func (o Outcome) Problems() []string {
	problems := slices.Concat(o.Judgement.Problems(), stageProblems(o.Stages), analysisProblems(o.Act, o.Analysis, o.Last))
	for _, problem := range stageProblems(o.HeaderStages) {
		problems = append(problems, "with "+o.Header+": "+problem)
	}
	if o.Versions.Faulty && o.exposure.Failed == 0 {
		problems = append(problems, fmt.Sprintf("%s has failed none of its %d requests: there was nothing to catch", o.Versions.New, o.exposure.Served))
	}
	return problems
}

// OK says whether everything was as claimed: of the Rollout, of the requests, and
// of the analysis.
func (o Outcome) OK() bool { return len(o.Problems()) == 0 }

// exitCode is the demo's: 0 if everything was as claimed, and 1 if not.
func exitCode(outcomes []Outcome) int {
	if slices.ContainsFunc(outcomes, func(o Outcome) bool { return !o.OK() }) {
		return 1
	}
	return 0
}
