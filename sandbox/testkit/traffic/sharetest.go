package traffic

import (
	"fmt"
	"math"
)

const (
	// ErrorRate bounds how often a ShareTest is wrong, in either way: that it
	// refuses a proxy that picks as it should, or accepts one that does not.
	ErrorRate = 1e-6
	// ShareBatch is how many answers to add before a ShareTest judges again.
	ShareBatch = 500
)

// A ShareTest decides whether a proxy picks a backend at random with a given
// weight, or with a weight that is off by a margin or more. It takes more answers
// until it errs no more often than ErrorRate. It is Wald's sequential probability
// ratio test against both weights that are off by exactly the margin. For a weight
// of 20 and a margin of 3 it takes some 6,000 answers of a proxy with that weight,
// a third of what a number fixed beforehand would have to be.
type ShareTest struct {
	// Weight is from 1 to 99, Margin above 0, both in percentage points.
	Weight, Margin int
}

// never, or 1-never, stands in for a probability that is not between 0 and 1.
const never = 1e-9

// ratio returns the logarithm of the likelihood ratio: how many times likelier the
// number of wanted ones among of answers is if the weight is off by off points.
func (s ShareTest) ratio(wanted, of, off int) float64 {
	right := float64(s.Weight) / 100
	wrong := min(max(float64(s.Weight+off)/100, never), 1-never)
	return float64(wanted)*math.Log(wrong/right) + float64(of-wanted)*math.Log((1-wrong)/(1-right))
}

// most is the number of answers after which the test decides in any case. With a
// proxy whose weight is right, or off by the margin, it needs an eighth of them as
// a rule; a proxy that is still undecided then has a weight between the two.
func (s ShareTest) most() int {
	p := float64(s.Weight) / 100
	slowest := 0.0
	for _, off := range []int{s.Margin, -s.Margin} {
		perAnswer := -p*s.ratio(1, 1, off) - (1-p)*s.ratio(0, 1, off)
		slowest = max(slowest, -math.Log(ErrorRate)/perAnswer)
	}
	return int(8 * slowest)
}

// decide says whether the number of wanted ones among of answers shows that the
// weight is right, or that it is wrong.
func (s ShareTest) decide(wanted, of int) (right, wrong bool) {
	likelier := max(s.ratio(wanted, of, s.Margin), s.ratio(wanted, of, -s.Margin))
	// Each of the two sides gets half of the error rate.
	return likelier <= math.Log(ErrorRate), likelier >= -math.Log(ErrorRate/2)
}

// Judge reports whether the answers suffice to decide. If they do, the error is nil
// if the proxy picks the wanted backend with its weight. Failed answers count for
// no backend.
func (s ShareTest) Judge(answers []Answer, wanted string) (decided bool, err error) {
	judged, count, failures := 0, 0, 0
	failure := ""
	for _, a := range answers {
		switch {
		case a.Failed():
			if failures++; failures == 1 {
				failure = fmt.Sprintf("; the first failure is %s", a)
			}
			continue
		case a.Backend == wanted:
			count++
		}
		judged++
	}
	switch right, wrong := s.decide(count, judged); {
	case wrong:
		return true, fmt.Errorf("of %d requests %d went to %s: a random pick with a weight of %d comes to that, or further off, once in %.0g runs at most",
			judged, count, wanted, s.Weight, 1/ErrorRate)
	case right:
		return true, nil
	case len(answers) < s.most():
		return false, nil
	case failures > len(answers)/2:
		return true, fmt.Errorf("%d of %d requests have failed: too many to judge a share by%s", failures, len(answers), failure)
	}
	return true, fmt.Errorf("of %d requests %d went to %s: that is neither a weight of %d, nor one that is off by %d", judged, count, wanted, s.Weight, s.Margin)
}
