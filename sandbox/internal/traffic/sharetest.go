package traffic

import (
	"fmt"
	"math"
)

// ErrorRate bounds how often a ShareTest is wrong, in either way: that it refuses
// a proxy that picks as it should, and that it takes one that does not.
const ErrorRate = 1e-6

// A ShareTest decides by how many of a number of answers are wanted ones whether a
// proxy picks at random with a weight. Its figures are those of the binomial
// distribution, summed up without an approximation.
//
// The number is within Low and High with a probability of at least 1-ErrorRate
// where the weight is as it should be, and of at most ErrorRate where it is off by
// a margin or more.
type ShareTest struct {
	// Requests is how many answers there have to be.
	Requests int
	// Low and High are the least and the most of them that may be wanted ones.
	Low, High int
}

// NewShareTest returns the test that tells a weight of 1..99 from one that is off
// by a margin, both in percentage points, with the fewest requests that this takes,
// give or take 1 in 100: for a weight of 20 and a margin of 3 about 17,500. Half of
// ErrorRate is for each side of a weight that is as it should be.
func NewShareTest(weight, margin int) ShareTest {
	p, d := float64(weight)/100, float64(margin)/100
	// The normal distribution's answer is near, and a little low.
	const within, beyond = 4.8916, 4.7534 // quantiles of 1 - ErrorRate/2 and 1 - ErrorRate
	widest := 0.0
	for _, off := range []float64{p - d, p + d} {
		if off > 0 && off < 1 {
			widest = max(widest, math.Sqrt(off*(1-off)))
		}
	}
	n := int(math.Pow((within*math.Sqrt(p*(1-p))+beyond*widest)/d, 2))
	for ; ; n += 1 + n/100 {
		t := ShareTest{Requests: n}
		t.Low, t.High = interval(n, p, ErrorRate/2)
		if (p-d < 0 || t.accepts(p-d) <= ErrorRate) && (p+d > 1 || t.accepts(p+d) <= ErrorRate) {
			return t
		}
	}
}

// accepts returns the probability that the test takes a proxy that picks with
// probability p.
func (s ShareTest) accepts(p float64) float64 {
	sum := 0.0
	for k := s.Low; k <= s.High; k++ {
		sum += probability(s.Requests, k, p)
	}
	return sum
}

// Check returns an error if the number of wanted ones among the first answers, as
// many as the test takes, is not what the weight gives. An answer that failed
// counts for nobody; too few others are an error.
func (s ShareTest) Check(answers []Answer, wanted string) error {
	judged, count := 0, 0
	failure := ""
	for _, a := range answers {
		if a.Failed() && failure == "" {
			failure = fmt.Sprintf("; the first failure is %s", a)
		}
		if a.Failed() || judged == s.Requests {
			continue
		}
		judged++
		if a.Backend == wanted {
			count++
		}
	}
	switch {
	case judged < s.Requests:
		return fmt.Errorf("%d answers without a failure are too few to judge a share by, which takes %d%s", judged, s.Requests, failure)
	case count < s.Low || count > s.High:
		return fmt.Errorf("of %d requests %d went to %s; a random pick with its weight gives %d to %d, but once in %.0g runs",
			s.Requests, count, wanted, s.Low, s.High, 1/ErrorRate)
	}
	return nil
}
