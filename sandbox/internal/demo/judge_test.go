package demo

import (
	"strings"
	"testing"
	"time"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// seen makes what was seen at each second from the start on.
func seen(list ...Seen) []Seen {
	for i := range list {
		list[i].At = start.Add(time.Duration(i) * time.Second)
	}
	return list
}

func at(step, weight int32, split string) Seen {
	return Seen{Status: Status{Step: step, Weight: weight, Verified: true}, Split: split}
}

func unverified(s Seen) Seen { s.Verified = false; return s }
func promoted(s Seen) Seen   { s.Promoted = true; return s }
func aborted(s Seen) Seen    { s.Aborted = true; return s }

// toTheEnd is a canary that goes as it should. The annotation changes before the
// status of the Rollout, which reports a weight only after it is set.
func toTheEnd() []Seen {
	return seen(
		at(0, 0, ""), at(0, 0, text20), at(0, 20, text20), at(1, 20, text20),
		at(2, 20, text20), at(2, 20, text50), at(2, 50, text50), at(3, 50, text50),
		at(4, 50, text50), at(4, 50, text80), at(4, 80, text80), at(5, 80, text80),
		at(6, 80, text80), at(6, 80, text100), promoted(at(6, 100, text100)),
		promoted(at(6, 100, "")), promoted(at(6, 0, "")),
	)
}

func without(all []Seen, gone func(Seen) bool) []Seen {
	var kept []Seen
	for _, s := range all {
		if !gone(s) {
			kept = append(kept, s)
		}
	}
	return kept
}

func replaced(all []Seen, from, to string) []Seen {
	for i := range all {
		if all[i].Split == from {
			all[i].Split = to
		}
	}
	return all
}

func TestJudge(t *testing.T) {
	toPromotion, toAbort := Act{}.Expect(guide), Act{CaughtAt: 50}.Expect(guide)
	wrong := "- service: s\n  weight: 51\n- service: c\n  weight: 49\n"
	tests := map[string]struct {
		expected []Expectation
		seen     []Seen
		want     []string // parts of the problems
	}{
		"promoted as asked": {expected: toPromotion, seen: toTheEnd()},
		"aborted as asked": {expected: toAbort, seen: seen(
			at(0, 0, ""), at(0, 20, text20), at(2, 20, text50), at(3, 50, text50),
			aborted(at(3, 50, text50)), aborted(at(0, 0, "")),
		)},
		"nothing seen": {expected: toAbort, want: []string{
			"1/6 setWeight 20: was never reached", "3/6 setWeight 50: was never reached", "aborted: was never reached",
		}},
		"no annotation ever": {
			expected: toPromotion,
			seen:     without(toTheEnd(), func(s Seen) bool { return s.Split != "" }),
			want:     []string{"setWeight 20: the split never became s=80, c=20", "setWeight 50", "setWeight 80", "all steps done", "promoted: the split never became none"},
		},
		"a wrong weight": {
			expected: toPromotion, seen: replaced(toTheEnd(), text50, wrong),
			want: []string{"3/6 setWeight 50: the split became s=51, c=49 instead of s=50, c=50"},
		},
		"no newline at the end": {
			expected: toPromotion, seen: replaced(toTheEnd(), text80, strings.TrimSuffix(text80, "\n")),
			want: []string{"5/6 setWeight 80: the split became"},
		},
		"back to stable before the promotion": {
			expected: toPromotion,
			seen: seen(at(0, 20, text20), at(2, 20, ""), at(2, 50, text50), at(4, 80, text80),
				at(6, 100, text100), promoted(at(6, 0, ""))),
			want: []string{"3/6 setWeight 50: the split became none", "5/6", "all steps done", "promoted", "nothing asked for the split that came last: none"},
		},
		"left behind": {
			expected: toPromotion,
			seen:     without(toTheEnd(), func(s Seen) bool { return s.Promoted && s.Split == "" }),
			want:     []string{"promoted: the split never became none"},
		},
		"back after the end": {
			expected: toPromotion, seen: append(toTheEnd(), promoted(at(6, 0, text20))),
			want: []string{"nothing asked for the split that came last: s=80, c=20"},
		},
		"never verified": {
			expected: toAbort, seen: seen(at(0, 0, ""), unverified(at(0, 20, text20)), at(2, 50, text50), aborted(at(0, 0, ""))),
			want: []string{"1/6 setWeight 20: the weight was not verified"},
		},
		"another weight reported": {
			expected: toAbort, seen: seen(at(0, 0, ""), at(0, 20, text20), at(2, 20, text50), aborted(at(0, 0, ""))),
			want: []string{"3/6 setWeight 50: the Rollout reported weight 20 instead of 50"},
		},
		"verified only before the annotation": {
			expected: toAbort, seen: seen(at(0, 0, ""), at(0, 20, ""), unverified(at(0, 20, text20)), at(2, 50, text50), aborted(at(0, 0, ""))),
			want: []string{"1/6 setWeight 20: the weight was not verified"},
		},
		"not over yet": {
			expected: toAbort, seen: seen(at(0, 0, ""), at(0, 20, text20)),
			want: []string{"3/6 setWeight 50: was never reached", "aborted: was never reached"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			j := Judge(tt.expected, tt.seen)
			if len(j.Results) != len(tt.expected) {
				t.Fatalf("%d results of %d expectations", len(j.Results), len(tt.expected))
			}
			problems := j.Problems()
			if j.OK() != (len(tt.want) == 0) || len(problems) != len(tt.want) {
				t.Fatalf("OK = %t, problems:\n  %s\nwant:\n  %s", j.OK(), strings.Join(problems, "\n  "), strings.Join(tt.want, "\n  "))
			}
			for i, want := range tt.want {
				if !strings.Contains(problems[i], want) {
					t.Errorf("problem %d is %q, want %q in it", i, problems[i], want)
				}
			}
		})
	}
}

// TestJudgeSetWeightZero has steps that change nothing at the beginning and at
// the end.
func TestJudgeSetWeightZero(t *testing.T) {
	canary := Canary{Stable: "s", Canary: "c", Steps: append(append(guide.Steps[:0:0], weight(0)), weight(100))}
	j := Judge(Act{}.Expect(canary), seen(
		at(0, 0, ""), at(1, 0, ""), at(1, 0, text100), at(1, 100, text100),
		promoted(at(2, 100, text100)), promoted(at(2, 0, "")),
	))
	if !j.OK() {
		t.Errorf("problems: %q", j.Problems())
	}
}
