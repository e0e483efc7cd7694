package demo

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
)

var blueToYellow = Versions{Old: "blue", New: "yellow"}

// split makes n answers, one every 10 ms from a time on. Of each 100 as many as
// yellow says are yellow, evenly spread, and the others blue.
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

// results makes the results of annotations that came 4 seconds apart.
func results(shares ...int32) []Result {
	var list []Result
	for i, share := range shares {
		present := start.Add(time.Duration(i+1) * 4 * time.Second)
		list = append(list, Result{
			Expectation: Expectation{Title: []string{"first", "second", "third", "fourth"}[i], Share: share},
			Asked:       present, Present: present, Verified: true, Seen: true,
		})
	}
	return list
}

// faulty makes the answers of a canary at 20 % that is aborted, where a version fails
// percent in 100 of its requests.
func faulty(version string, percent int) []traffic.Answer {
	list := requests(phase{4, 0}, phase{4, 20}, phase{4, 0})
	served := 0
	for i, a := range list {
		if a.Backend != version {
			continue
		}
		if (served+1)*percent/100 > served*percent/100 {
			failedBy(list, i, version)
		}
		served++
	}
	return list
}

// failedBy makes one of the requests fail: by a version, or by an unknown one if
// version is empty.
func failedBy(list []traffic.Answer, number int, version string) []traffic.Answer {
	a := &list[number]
	a.Status, a.Backend, a.FailedBackend, a.Problem = 500, "", version, "status 500"
	return list
}

func TestJudgeRequests(t *testing.T) {
	canary, caught := results(20, 50, 100), results(20, 0)
	asAsked := func() []traffic.Answer { return requests(phase{4, 0}, phase{4, 20}, phase{4, 50}, phase{4, 100}) }
	late := slices.Concat(requests(phase{4, 0}, phase{5, 20}), split(start.Add(9*time.Second), 20, 20), split(start.Add(9200*time.Millisecond), 300, 0))
	for i := range late {
		late[i].Number = i
	}
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
		faulty  bool     // whether yellow is to fail some
		want    []string // parts of the problems
	}{
		"as asked":                  {results: canary, answers: asAsked()},
		"as asked, for Envoy":       {results: canary, answers: asAsked(), proxy: Envoy},
		"an abort":                  {results: results(20, 0), answers: requests(phase{4, 0}, phase{4, 20}, phase{4, 0})},
		"an answer just after that": {results: results(20, 0), answers: append(requests(phase{4, 0}, phase{4, 20}), append(split(start.Add(8*time.Second), 10, 20), split(start.Add(8100*time.Millisecond), 300, 0)...)...)},
		"answers more than a second after that, of Contour": {results: caught, answers: late, proxy: Gateway},
		"answers more than a second after that": {
			results: caught, answers: late, proxy: Envoy,
			want: []string{"second: 4 requests went to a version without a share", "request 904", "request 909", "request 914"},
		},
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
			want: []string{"first: of 250 requests 100 went to yellow; with a random pick it is 22 to 83"},
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
			want: []string{"first: 50 requests while nothing changed are too few"},
		},
		"too few requests where all go to one version": {
			results: canary, answers: slices.Concat(asAsked()[:1200], asAsked()[1550:]),
			want: []string{"third: 50 requests while nothing changed are too few"},
		},
		"a step without a request": {
			results: canary, answers: slices.Concat(asAsked()[:800], asAsked()[1200:]),
			want: []string{"second: 0 requests while nothing changed are too few"},
		},
		"nothing sent before": {
			results: results(20), answers: requests(phase{4, 0}, phase{4, 20})[400:],
			want: []string{"before: 0 requests while nothing changed are too few"},
		},
		"nothing sent after the end": {
			results: results(20, 0), answers: requests(phase{4, 0}, phase{4, 20}),
			want: []string{"second: 0 requests while nothing changed are too few"},
		},
		"an annotation that never came": {
			results: []Result{canary[0], {Expectation: Expectation{Title: "second", Share: 50}}},
			answers: requests(phase{4, 0}, phase{4, 20}),
			want:    []string{"second: 0 requests while nothing changed are too few"},
		},
		"another annotation that changes nothing": {
			results: results(20, 20), answers: requests(phase{4, 0}, phase{5, 20}),
		},
		"a first step that changes nothing": {
			results: results(0, 20), answers: requests(phase{4, 0}, phase{4, 0}, phase{4, 20}),
		},
		"no requests at all": {results: results(20), want: []string{
			"before: 0 requests while nothing changed are too few", "first: 0 requests while nothing changed are too few",
		}},
		"a faulty version's own failures": {
			results: caught, answers: faulty("yellow", 15), faulty: true,
		},
		"those failures, of a version that is to be good": {
			results: caught, answers: faulty("yellow", 15),
			want: []string{"first: 12 requests failed", "status 500", "status 500", "status 500", "first: of 100 consecutive requests"},
		},
		"a failure of the stable version": {
			results: caught, answers: failedBy(faulty("yellow", 15), 100, "blue"), faulty: true,
			want: []string{"before: 1 requests failed", "request 100,"},
		},
		"a failure of the stable version, beside the faulty one": {
			results: caught, answers: failedBy(faulty("yellow", 15), 600, "blue"), faulty: true,
			want: []string{"first: 1 requests failed", "request 600,"},
		},
		"a failure that no version has answered": {
			results: caught, answers: failedBy(faulty("yellow", 15), 600, ""), faulty: true,
			want: []string{"first: 1 requests failed", "request 600,"},
		},
		"a faulty version's failure after the abort": {
			results: caught, answers: failedBy(faulty("yellow", 15), 1000, "yellow"), faulty: true,
			want: []string{"second: 1 requests went to a version without a share", "request 1000,"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.proxy == "" {
				tt.proxy = Embedded
			}
			versions := blueToYellow
			versions.Faulty = tt.faulty
			stages := JudgeRequests(tt.results, tt.answers, versions, tt.proxy)
			problems := stageProblems(stages)
			if len(problems) != len(tt.want) {
				t.Fatalf("problems:\n  %s\nwant:\n  %s", strings.Join(problems, "\n  "), strings.Join(tt.want, "\n  "))
			}
			for i, want := range tt.want {
				if !strings.Contains(problems[i], want) {
					t.Errorf("problem %d is %q, want %q in it", i, problems[i], want)
				}
			}
			// OK decides on the mark of a row.
			if ok := !slices.ContainsFunc(stages, func(s Stage) bool { return !s.OK() }); ok != (len(tt.want) == 0) {
				t.Errorf("OK = %t with problems %q", ok, problems)
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
	r := results(20, 50, 50)
	got := JudgeRequests(r, requests(phase{4, 0}, phase{4, 20}, phase{4, 50}), blueToYellow, Embedded)
	want := []Stage{
		{Title: "before", Requests: 400, Steady: 350},
		{Title: "first", Results: r[:1], Share: 20, Requests: 400, Steady: 250, New: 50},
		{Title: "second, third", Results: r[1:], Share: 50, Requests: 400, Steady: 300, New: 150},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
}

func TestExposure(t *testing.T) {
	answers := faulty("yellow", 15)
	got := exposureOf(answers, Versions{Old: "blue", New: "yellow", Faulty: true})
	// Every fifth answer of the second phase is yellow: the first of them is its
	// fifth answer, the last its last. An answer takes 2 ms.
	want := exposure{Served: 80, Failed: 12, Lasted: 3950*time.Millisecond + 2*time.Millisecond}
	if got != want {
		t.Errorf("exposure %+v, want %+v", got, want)
	}
	if got := exposureOf(answers, Versions{New: "green"}); got != (exposure{}) {
		t.Errorf("exposure to a version that has served nothing: %+v", got)
	}
}

// TestJudgeActs: each request belongs to one act, and to that act's colours.
func TestJudgeActs(t *testing.T) {
	answers := requests(phase{4, 0}, phase{4, 20})
	second := []Result{{Expectation: Expectation{Title: "late", Share: 20}, Present: start.Add(4 * time.Second)}}
	outcomes := judgeActs([]played{
		{versions: Versions{Old: "red", New: "blue"}, requests: 5},
		{versions: blueToYellow, requests: 100, judgement: Judgement{Results: second}},
	}, sent{answers: answers}, Embedded)
	counts := make([][]int, len(outcomes))
	for i, o := range outcomes {
		for _, s := range o.Stages {
			counts[i] = append(counts[i], s.Requests, len(s.Misrouted))
		}
	}
	if diff := cmp.Diff([][]int{{100, 100}, {300, 0, 400, 0}}, counts); diff != "" {
		t.Errorf("requests and misrouted ones by act and stage (-want +got):\n%s", diff)
	}
}

// A stage of many steps has a title that fits a table.
func TestTitleOf(t *testing.T) {
	r := results(20, 20, 20)
	for want, got := range map[string]string{
		"before, first":  titleOf(true, r[:1]),
		"before … third": titleOf(true, r),
		"first, second":  titleOf(false, r[:2]),
		"first … third":  titleOf(false, r),
	} {
		if got != want {
			t.Errorf("the title is %q, want %q", got, want)
		}
	}
}

// TestJudgeHeaderRequests: requests with a header are judged by their own share.
func TestJudgeHeaderRequests(t *testing.T) {
	canary := results(20, 20, 50)
	for i, share := range []int32{20, 100, 100} {
		canary[i].HeaderShare = share
	}
	judge := func(headerAnswers []traffic.Answer) Outcome {
		return judgeActs([]played{{versions: blueToYellow, judgement: Judgement{Results: canary}}}, sent{
			answers: requests(phase{4, 0}, phase{8, 20}, phase{4, 50}),
			header:  "X-Beta: yes", headerAnswers: headerAnswers,
		}, Embedded)[0]
	}
	o := judge(requests(phase{4, 0}, phase{4, 20}, phase{8, 100}))
	var got []string
	for _, s := range slices.Concat(o.Stages, o.HeaderStages) {
		got = append(got, fmt.Sprintf("%s: %d", s.Title, s.Share))
	}
	want := []string{"before: 0", "first, second: 20", "third: 50", "before: 0", "first: 20", "second, third: 100"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
	if problems := stageProblems(slices.Concat(o.Stages, o.HeaderStages)); len(problems) > 0 {
		t.Errorf("problems: %q", problems)
	}
	problems := judge(requests(phase{4, 0}, phase{12, 20})).Problems()
	if !slices.ContainsFunc(problems, func(p string) bool {
		return strings.HasPrefix(p, "with X-Beta: yes: second, third: ") && strings.Contains(p, "went to a version without a share")
	}) {
		t.Errorf("requests that the header route does not send to the new version: problems %q", problems)
	}
}

func TestParseProxy(t *testing.T) {
	for text, want := range map[string]Proxy{"embedded": Embedded, "envoy": Envoy, "nginx": "", "": "", "Envoy": "", "gateway": ""} {
		got, err := ParseProxy(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("ParseProxy(%q) = %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestVersionOf(t *testing.T) {
	for image, want := range map[string]struct {
		colour string
		faulty bool
	}{
		"argoproj/rollouts-demo:blue":     {colour: "blue"},
		"argoproj/rollouts-demo:bad-blue": {colour: "blue", faulty: true},
		"blue":                            {},
		"":                                {},
	} {
		if colour, faulty := versionOf(image); colour != want.colour || faulty != want.faulty {
			t.Errorf("versionOf(%q) = %q, %t; want %q, %t", image, colour, faulty, want.colour, want.faulty)
		}
	}
}
