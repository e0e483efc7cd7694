package demo

import (
	"fmt"
	"slices"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/traffic"
)

// played is what was seen of an act.
type played struct {
	act       Act
	versions  Versions
	judgement Judgement
	analysis  Analysis
	last      Status
	// requests is where those begin that were sent during the act; the first act
	// has those before it as well.
	requests traffic.Mark
}

// Outcome is how an act went.
type Outcome struct {
	Act       Act
	Versions  Versions
	Judgement Judgement
	Stages    []Stage
	Analysis  Analysis
	// Last is the Rollout at the end.
	Last     Status
	exposure exposure
}

// judgeActs gives each act the requests that were sent from its beginning to
// that of the next.
func judgeActs(acts []played, answers []traffic.Answer, proxy Proxy) []Outcome {
	outcomes := make([]Outcome, len(acts))
	for i, a := range acts {
		begin, end := int(a.requests), len(answers)
		if i == 0 {
			begin = 0
		}
		if i+1 < len(acts) {
			end = int(acts[i+1].requests)
		}
		during := answers[begin:end]
		outcomes[i] = Outcome{
			Act: a.act, Versions: a.versions, Judgement: a.judgement, Analysis: a.analysis, Last: a.last,
			Stages:   JudgeRequests(a.judgement.Results, during, a.versions, proxy),
			exposure: exposureOf(during, a.versions),
		}
	}
	return outcomes
}

// Problems says in words what was not as claimed; nothing if all was.
func (o Outcome) Problems() []string {
	problems := slices.Concat(o.Judgement.Problems(), stageProblems(o.Stages), analysisProblems(o.Act, o.Analysis, o.Last))
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
