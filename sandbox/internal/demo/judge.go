package demo

import (
	"fmt"
	"time"
)

// Result is what was seen of one expectation.
type Result struct {
	Expectation
	// Asked is when the expectation was asked for, and Present when its split was
	// first seen; zero if never.
	Asked, Present time.Time
	// SeenWeight is the weight that the Rollout has reported with the split.
	SeenWeight int32
	// Verified says whether the Rollout has reported the weight as verified while the
	// split was in place.
	Verified bool
	// SeenSplit is the split that was seen in its place.
	SeenSplit string
	// Seen says whether anything was seen of it at all.
	Seen bool
}

// OK says whether everything was as asked.
func (r Result) OK() bool {
	return r.Seen && !r.Asked.IsZero() && !r.Present.IsZero() && r.Verified &&
		r.SeenWeight == r.Weight && r.SeenSplit == r.Split
}

// Judgement is the outcome of an act.
type Judgement struct {
	Results []Result
	// Strangers are splits that were seen and that nothing has asked for.
	Strangers []string
}

// OK says whether everything was as asked, and nothing else was seen.
func (j Judgement) OK() bool {
	for _, r := range j.Results {
		if !r.OK() {
			return false
		}
	}
	return len(j.Strangers) == 0
}

// stretch is a time during which the split did not change.
type stretch struct {
	split string
	seen  []Seen
}

// Judge compares what was seen from the moment an image was set with what was
// expected. The splits must have followed one another exactly as expected; each
// has to have been there while the Rollout reported its weight as verified.
func Judge(expected []Expectation, seen []Seen) Judgement {
	stretches := stretchesOf(seen)
	if len(stretches) == 0 {
		stretches = []stretch{{}}
	}
	j := Judgement{Results: make([]Result, 0, len(expected))}
	at := 0
	for i, e := range expected {
		r := Result{Expectation: e, Asked: asked(e, seen)}
		// An expectation with the same split as the one before is judged by the same
		// stretch.
		next := at
		if i == 0 || e.Split != expected[i-1].Split {
			next++
		}
		if i == 0 && e.Split == stretches[0].split {
			next = 0
		}
		if next < len(stretches) {
			at = next
			r.judge(stretches[at])
		}
		j.Results = append(j.Results, r)
	}
	for _, s := range stretches[at+1:] {
		j.Strangers = append(j.Strangers, s.split)
	}
	return j
}

// judge fills the result in from the stretch that is in its place.
func (r *Result) judge(s stretch) {
	r.Seen, r.SeenSplit = true, s.split
	if s.split == r.Split {
		r.Present = s.seen[0].At
	}
	for _, seen := range s.seen {
		if !reached(r.Expectation, seen) {
			continue
		}
		r.SeenWeight = seen.Weight
		if seen.Weight == r.Weight && seen.Verified {
			r.Verified = true
			return
		}
	}
}

// asked returns when a weight was asked for first.
func asked(e Expectation, seen []Seen) time.Time {
	for _, s := range seen {
		if reached(e, s) {
			return s.At
		}
	}
	return time.Time{}
}

// reached says whether what is seen is at the moment of an expectation, or
// past it.
func reached(e Expectation, s Seen) bool {
	switch e.When {
	case AtPromotion:
		return s.Promoted
	case AtAbort:
		return s.Aborted
	default:
		// An abort goes back to the first step.
		return !s.Aborted && s.Step >= e.Step
	}
}

func stretchesOf(seen []Seen) []stretch {
	var list []stretch
	for _, s := range seen {
		if n := len(list); n == 0 || list[n-1].split != s.Split {
			list = append(list, stretch{split: s.Split})
		}
		last := &list[len(list)-1]
		last.seen = append(last.seen, s)
	}
	return list
}

// Problems says in words what was not as asked.
func (j Judgement) Problems() []string {
	var list []string
	for _, r := range j.Results {
		switch {
		case r.OK():
		case r.Asked.IsZero():
			list = append(list, fmt.Sprintf("%s: was never reached", r.Title))
		case !r.Seen:
			list = append(list, fmt.Sprintf("%s: the split never became %s", r.Title, oneLine(r.Split)))
		case r.SeenSplit != r.Split:
			list = append(list, fmt.Sprintf("%s: the split became %s instead of %s", r.Title, oneLine(r.SeenSplit), oneLine(r.Split)))
		case r.SeenWeight != r.Weight:
			list = append(list, fmt.Sprintf("%s: the Rollout reported weight %d instead of %d", r.Title, r.SeenWeight, r.Weight))
		default:
			list = append(list, fmt.Sprintf("%s: the weight was not verified", r.Title))
		}
	}
	for _, s := range j.Strangers {
		list = append(list, fmt.Sprintf("nothing asked for the split that came last: %s", oneLine(s)))
	}
	return list
}
