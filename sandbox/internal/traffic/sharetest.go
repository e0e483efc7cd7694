package traffic

import (
	"fmt"
	"math"
)

const (
	// ErrorRate bounds how often a ShareTest is wrong, in either way: that it refuses
	// a proxy that picks as it should, and that it takes one that does not.
	ErrorRate = 1e-6
	// ShareBatch is after how many more answers a ShareTest is asked again.
	ShareBatch = 500
)

// A ShareTest decides whether a proxy picks a backend at random with a weight, or with
// one that is off by a margin or more: the more answers, the surer, until it is sure
// enough for ErrorRate. It is Wald's sequential probability ratio test against both
// weights that are just off by the margin. For a weight of 20 and a margin of 3 it takes
// some 6,000 answers of a proxy that is right, a third of what a number fixed beforehand
// would have to be.
type ShareTest struct {
	// Weight is from 1 to 99, Margin above 0, both in percentage points.
	Weight, Margin int
}

// never is the probability in place of one that is 0 or 1, or beyond.
const never = 1e-9

// ratio returns the logarithm of how many times likelier it is that of so many answers
// these are wanted ones if the weight is off by so many points.
func (s ShareTest) ratio(wanted, of, off int) float64 {
	right := float64(s.Weight) / 100
	wrong := min(max(float64(s.Weight+off)/100, never), 1-never)
	return float64(wanted)*math.Log(wrong/right) + float64(of-wanted)*math.Log((1-wrong)/(1-right))
}

// most is how many answers decide at last. A proxy that is right, or off by the margin,
// needs an eighth of them as a rule; one that has not been decided is between both.
func (s ShareTest) most() int {
	p := float64(s.Weight) / 100
	slowest := 0.0
	for _, off := range []int{s.Margin, -s.Margin} {
		perAnswer := -p*s.ratio(1, 1, off) - (1-p)*s.ratio(0, 1, off)
		slowest = max(slowest, -math.Log(ErrorRate)/perAnswer)
	}
	return int(8 * slowest)
}

// decide says whether so many wanted ones of so many answers show that the weight is
// right, or wrong.
func (s ShareTest) decide(wanted, of int) (right, wrong bool) {
	likelier := max(s.ratio(wanted, of, s.Margin), s.ratio(wanted, of, -s.Margin))
	// A half of the rate is for each side.
	return likelier <= math.Log(ErrorRate), likelier >= -math.Log(ErrorRate/2)
}

// Judge says whether these answers decide. If they do, the error is nil where the proxy
// picks the wanted backend with its weight. An answer that failed counts for nobody.
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
