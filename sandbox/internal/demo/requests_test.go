package demo

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/traffic"
)

var blueToYellow = Versions{Old: "blue", New: "yellow"}

// split makes n answers, one each 10 ms from a time on, of which so many in 100
// are yellow, evenly, and the others blue.
func split(from time.Time, n, yellow int) []traffic.Answer {
	list := make([]traffic.Answer, n)
	for i := range list {
		sent := from.Add(time.Duration(i) * 10 * time.Millisecond)
		list[i] = traffic.Answer{Number: i, Sent: sent, Received: sent.Add(2 * time.Millisecond), Status: 200, Backend: "blue"}
		if (i+1)*yellow/100 > i*yellow/100 {
			list[i].Backend = "yellow"
		}
	}
	return list
}

// phase is a share that lasts for some seconds.
type phase struct{ seconds, yellow int }

// requests makes the answers of phases that follow one another.
func requests(phases ...phase) []traffic.Answer {
	var list []traffic.Answer
	from := start
	for _, p := range phases {
		list = append(list, split(from, 100*p.seconds, p.yellow)...)
		from = from.Add(time.Duration(p.seconds) * time.Second)
	}
	for i := range list {
		list[i].Number = i
	}
	return list
}

// results makes what was seen of annotations that came 4 seconds apart.
func results(shares ...int32) []Result {
	var list []Result
	for i, share := range shares {
		list = append(list, Result{
			Expectation: Expectation{Title: []string{"first", "second", "third", "fourth"}[i], Share: share},
			Present:     start.Add(time.Duration(i+1) * 4 * time.Second),
		})
	}
	return list
}

func TestJudgeRequests(t *testing.T) {
	canary := results(20, 50, 100)
	asAsked := func() []traffic.Answer { return requests(phase{4, 0}, phase{4, 20}, phase{4, 50}, phase{4, 100}) }
	change := func(number int, change func(*traffic.Answer)) []traffic.Answer {
		list := asAsked()
		change(&list[number])
		return list
	}
	to := func(backend string) func(*traffic.Answer) {
		return func(a *traffic.Answer) { a.Backend = backend }
	}
	tests := map[string]struct {
		results []Result
		answers []traffic.Answer
		proxy   Proxy
		want    []string // parts of the problems
	}{
		"as asked":                  {results: canary, answers: asAsked()},
		"as asked, for Envoy":       {results: canary, answers: asAsked(), proxy: Envoy},
		"an abort":                  {results: results(20, 0), answers: requests(phase{4, 0}, phase{4, 20}, phase{4, 0})},
		"an answer just after that": {results: results(20, 0), answers: append(requests(phase{4, 0}, phase{4, 20}), append(split(start.Add(8*time.Second), 10, 20), split(start.Add(8100*time.Millisecond), 300, 0)...)...)},
		"an abort that is not one": {
			results: results(20, 0), answers: requests(phase{4, 0}, phase{4, 20}, phase{4, 20}),
			want: []string{"second: 60 requests went to a version without a share", "request 904", "request 909", "request 914"},
		},
		"a wrong split": {
			results: canary, answers: requests(phase{4, 0}, phase{4, 30}, phase{4, 50}, phase{4, 100}),
			want: []string{"first: of 100 consecutive requests, from request 500 on, 30 went to yellow in place of 20 ± 1"},
		},
		"wrong, but within a random pick's": {results: canary, answers: requests(phase{4, 0}, phase{4, 25}, phase{4, 50}, phase{4, 100}), proxy: Envoy},
		"a wrong split of Envoy": {
			results: canary, answers: requests(phase{4, 0}, phase{4, 40}, phase{4, 50}, phase{4, 100}), proxy: Envoy,
			want: []string{"first: of 250 requests 100 went to yellow; with a random pick it is 27 to 76"},
		},
		"a split that is not uniform": {
			results: canary, answers: change(600, to("yellow")), // one more is allowed
		},
		"a split that lags": {
			results: results(20, 50), answers: requests(phase{4, 0}, phase{6, 20}, phase{2, 50}),
			want: []string{"second: of 100 consecutive requests"},
		},
		"a canary too early": {
			results: canary, answers: change(100, to("yellow")),
			want: []string{"before: 1 requests went to a version without a share", "request 100,"},
		},
		"the old one at 100": {
			results: canary, answers: change(1500, to("blue")),
			want: []string{"third: 1 requests went to a version without a share", "request 1500,"},
		},
		"the old one just after": {results: canary, answers: change(1250, to("blue"))},
		"somebody else's": {
			results: canary, answers: change(1250, to("red")),
			want: []string{"third: 1 requests went to a version without a share", "request 1250,"},
		},
		"one failed": {
			results: canary, answers: change(450, func(a *traffic.Answer) { a.Problem, a.Backend = "status 503", "" }),
			want: []string{"first: 1 requests failed", "status 503"},
		},
		"too few requests": {
			results: canary, answers: slices.Concat(asAsked()[:400], asAsked()[700:]),
			want: []string{"first: 50 requests are too few"},
		},
		"nothing sent after the end": {
			results: results(20, 0), answers: requests(phase{4, 0}, phase{4, 20}),
			want: []string{"second: no request was sent when it had settled"},
		},
		"an annotation that never came": {
			results: []Result{canary[0], {Expectation: Expectation{Title: "second", Share: 50}}},
			answers: requests(phase{4, 0}, phase{4, 20}),
			want:    []string{"second: no request was sent when it had settled"},
		},
		"asked for again at once": {
			results: []Result{canary[0], canary[0]}, answers: requests(phase{4, 0}, phase{4, 20}),
		},
		"no requests at all": {results: results(20), want: []string{"first: 0 requests are too few"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.proxy == "" {
				tt.proxy = Embedded
			}
			stages := JudgeRequests(tt.results, tt.answers, blueToYellow, tt.proxy)
			problems := stageProblems(stages)
			if len(problems) != len(tt.want) {
				t.Fatalf("problems:\n  %s\nwant:\n  %s", strings.Join(problems, "\n  "), strings.Join(tt.want, "\n  "))
			}
			for i, want := range tt.want {
				if !strings.Contains(problems[i], want) {
					t.Errorf("problem %d is %q, want %q in it", i, problems[i], want)
				}
			}
			// What decides on the exit code.
			if o := (Outcome{Requests: stages}); o.OK() != (len(tt.want) == 0) {
				t.Errorf("OK = %t with problems %q", o.OK(), problems)
			}
			sum := 0
			for _, s := range stages {
				sum += s.Requests
			}
			if sum != len(tt.answers) {
				t.Errorf("%d requests in the stages, %d were sent", sum, len(tt.answers))
			}
		})
	}
}

func TestStages(t *testing.T) {
	got := JudgeRequests(results(20, 50), requests(phase{4, 0}, phase{4, 20}, phase{4, 50}), blueToYellow, Embedded)
	want := []Stage{
		{Title: "before", Requests: 400, Steady: 350},
		// Every fifth is yellow, the first of them the fifth: 40 ms, and 2 ms for the answer.
		{Title: "first", Share: 20, Requests: 400, Steady: 250, New: 50, First: 42 * time.Millisecond, HasFirst: true},
		{Title: "second", Share: 50, Requests: 400, Steady: 300, New: 150, First: 12 * time.Millisecond, HasFirst: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
}

func TestOutcomeOK(t *testing.T) {
	good := Judge(Act{}.Expect(guide), toTheEnd())
	bad := Judge(Act{}.Expect(guide), nil)
	for name, tt := range map[string]struct {
		outcome Outcome
		want    bool
	}{
		"all good":                   {Outcome{Judgement: good, Requests: []Stage{{}}}, true},
		"a step that was not taken":  {Outcome{Judgement: bad, Requests: []Stage{{}}}, false},
		"a request that failed":      {Outcome{Judgement: good, Requests: []Stage{{}, {Failed: make([]traffic.Answer, 1)}}}, false},
		"a request that went astray": {Outcome{Judgement: good, Requests: []Stage{{Misrouted: make([]traffic.Answer, 1)}}}, false},
	} {
		if got := tt.outcome.OK(); got != tt.want {
			t.Errorf("%s: OK = %t", name, got)
		}
	}
}

// TestJudgeActs: each request belongs to one act, and to that act's colours.
func TestJudgeActs(t *testing.T) {
	answers := requests(phase{4, 0}, phase{4, 20})
	second := []Result{{Expectation: Expectation{Title: "late", Share: 20}, Present: start.Add(4 * time.Second)}}
	outcomes := judgeActs([]played{
		{versions: Versions{Old: "red", New: "blue"}, requests: 5},
		{versions: blueToYellow, requests: 100, judgement: Judgement{Results: second}},
	}, answers, Embedded)
	counts := make([][]int, len(outcomes))
	for i, o := range outcomes {
		for _, s := range o.Requests {
			counts[i] = append(counts[i], s.Requests, len(s.Misrouted))
		}
	}
	if diff := cmp.Diff([][]int{{100, 100}, {300, 0, 400, 0}}, counts); diff != "" {
		t.Errorf("requests and misrouted ones by act and stage (-want +got):\n%s", diff)
	}
}

func TestParseProxy(t *testing.T) {
	for text, want := range map[string]Proxy{"embedded": Embedded, "envoy": Envoy, "nginx": "", "": "", "Envoy": ""} {
		got, err := ParseProxy(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("ParseProxy(%q) = %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestColourOf(t *testing.T) {
	for image, want := range map[string]string{"argoproj/rollouts-demo:blue": "blue", "blue": "", "": ""} {
		if got := colourOf(image); got != want {
			t.Errorf("colourOf(%q) = %q, want %q", image, got, want)
		}
	}
}
