package demo

import (
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
)

// blueToBadYellow is the second act of the tests.
var blueToBadYellow = Versions{Old: "blue", New: "yellow", Faulty: true}

// caughtAt20 is a bad canary that goes as it should: its weight after 4 s, and
// the abort after 8.
func caughtAt20() []Seen {
	list := []Seen{at(0, 0, ""), at(0, 20, text20), at(1, 20, text20), aborted(at(1, 20, text20)), aborted(at(0, 0, ""))}
	for i, second := range []int{0, 4, 5, 7, 8} {
		list[i].At = start.Add(time.Duration(second) * time.Second)
	}
	return list
}

func TestOutcome(t *testing.T) {
	bad := Act{Image: "demo:bad-yellow", CaughtAt: 20}
	neverAborts := caughtAt20()[:3]
	running := Analysis{Revision: 3, Phase: "Running", Unclear: 9, Last: `{"failed":0,"requests":0}`}
	for name, tt := range map[string]struct {
		seen     []Seen
		answers  []traffic.Answer
		analysis Analysis
		last     Status
		want     []string // parts of the problems
	}{
		"as claimed": {seen: caughtAt20(), answers: faulty("yellow", 15), analysis: failed, last: abortedByIt},
		"a failed request of the stable version": {
			seen: caughtAt20(), answers: failedBy(faulty("yellow", 15), 1100, "blue"), analysis: failed, last: abortedByIt,
			want: []string{"aborted: 1 requests failed", "request 1100,"},
		},
		"an analysis that never aborts": {
			seen: neverAborts, answers: faulty("yellow", 15)[:800], analysis: running, last: Status{Phase: "Paused"},
			want: []string{"aborted: was never reached", "aborted: 0 requests while nothing changed are too few", "has not failed: Running after measurement 9"},
		},
		"an abort by hand": {
			seen: caughtAt20(), answers: faulty("yellow", 15), analysis: running, last: Status{Phase: "Degraded", Aborted: true, Message: "RolloutAborted"},
			want: []string{"has not failed: Running"},
		},
		"a step without requests": {
			seen: caughtAt20(), answers: append(faulty("yellow", 15)[:400:400], faulty("yellow", 15)[800:]...), analysis: failed, last: abortedByIt,
			want: []string{"1/6 setWeight 20: 0 requests while nothing changed are too few", "yellow has failed none of its 0 requests"},
		},
		"a bad version that fails nothing": {
			seen: caughtAt20(), answers: faulty("yellow", 0), analysis: failed, last: abortedByIt,
			want: []string{"yellow has failed none of its 80 requests"},
		},
		"traffic that never comes back": {
			seen: caughtAt20(), answers: requests(phase{4, 0}, phase{8, 20}), analysis: failed, last: abortedByIt,
			want: []string{"aborted: 60 requests went to a version without a share", "request 904", "request 909", "request 914", "yellow has failed none"},
		},
		"the annotation left behind": {
			seen: caughtAt20()[:4], answers: faulty("yellow", 15)[:800], analysis: failed, last: abortedByIt,
			want: []string{"aborted: the split never became none", "aborted: 0 requests while nothing changed are too few"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			outcomes := judgeActs([]played{{
				act: bad, versions: blueToBadYellow, judgement: Judge(bad.Expect(guide), tt.seen),
				analysis: tt.analysis, last: tt.last,
			}}, sent{answers: tt.answers}, Embedded)
			problems := outcomes[0].Problems()
			if outcomes[0].OK() != (len(tt.want) == 0) || len(problems) != len(tt.want) {
				t.Fatalf("OK = %t, problems:\n  %s\nwant:\n  %s", outcomes[0].OK(), strings.Join(problems, "\n  "), strings.Join(tt.want, "\n  "))
			}
			for i, want := range tt.want {
				if !strings.Contains(problems[i], want) {
					t.Errorf("problem %d is %q, want %q in it", i, problems[i], want)
				}
			}
			if code := exitCode(outcomes); code != 0 != (len(tt.want) > 0) {
				t.Errorf("exit code %d with problems %q", code, problems)
			}
		})
	}
}
