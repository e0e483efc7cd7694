package traffic

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// A test keeps both of its promises, with no more requests than that takes.
func TestNewShareTest(t *testing.T) {
	for _, tc := range []struct {
		weight, margin int
		most           int // requests
	}{
		{20, 3, 18000}, {80, 3, 18000}, {50, 3, 26500}, {30, 3, 22500}, {70, 3, 22500}, {60, 3, 25500}, {1, 3, 3000}, {99, 3, 3000}, {20, 10, 1900},
	} {
		t.Run(fmt.Sprintf("%d ± %d", tc.weight, tc.margin), func(t *testing.T) {
			test := NewShareTest(tc.weight, tc.margin)
			t.Logf("%+v", test)
			p, d := float64(tc.weight)/100, float64(tc.margin)/100
			if refused := 1 - test.accepts(p); refused > ErrorRate {
				t.Errorf("it refuses the weight with probability %g", refused)
			}
			for _, off := range []float64{p - d, p + d, p - 2*d, p + 2*d} {
				if taken := test.accepts(off); off >= 0 && off <= 1 && taken > ErrorRate {
					t.Errorf("it takes %g with probability %g", off, taken)
				}
			}
			if test.Requests > tc.most {
				t.Errorf("it takes %d requests, want %d at most", test.Requests, tc.most)
			}
			// Nearly all of what is allowed is used: fewer requests would not do.
			if fewer := shorter(test, p); fewer.accepts(p+d) < ErrorRate && fewer.accepts(p-d) < ErrorRate && p-d >= 0 && p+d <= 1 {
				t.Errorf("%d requests would do", fewer.Requests)
			}
		})
	}
}

// shorter is the test with 3 of 100 requests less.
func shorter(s ShareTest, p float64) ShareTest {
	n := s.Requests * 97 / 100
	fewer := ShareTest{Requests: n}
	fewer.Low, fewer.High = interval(n, p, ErrorRate/2)
	return fewer
}

// The normal distribution, which the binomial one comes close to, gives the same
// acceptance interval to a few requests.
func TestShareTestBesideTheNormalDistribution(t *testing.T) {
	test := NewShareTest(20, 3)
	mean, deviation := 0.2*float64(test.Requests), math.Sqrt(0.2*0.8*float64(test.Requests))
	if low, high := mean-4.8916*deviation, mean+4.8916*deviation; math.Abs(low-float64(test.Low)) > 5 || math.Abs(high-float64(test.High)) > 5 {
		t.Errorf("%+v, want %.0f to %.0f give or take 5", test, low, high)
	}
}

func TestShareTestCheck(t *testing.T) {
	test := ShareTest{Requests: 10, Low: 1, High: 3}
	failed := Answer{Backend: "", Problem: "status 503"}
	for name, tc := range map[string]struct {
		answers []Answer
		err     string
	}{
		"the lowest":                 {answers("cssssssssss"), ""},
		"below that":                 {answers("ssssssssss"), "of 10 requests 0 went to canary; a random pick with its weight gives 1 to 3, but once in 1e+06 runs"},
		"the highest":                {answers("cccsssssss"), ""},
		"above that":                 {answers("ccccssssss"), "4 went to canary"},
		"too few":                    {answers("csssssss"), "8 answers without a failure are too few to judge a share by, which takes 10"},
		"those after the first ten":  {answers("cssssssssscccc"), ""},
		"a failure counts for none":  {append([]Answer{failed}, answers("cccsssssss")...), ""},
		"too few without a failure":  {append([]Answer{failed, failed}, answers("cssssssss")...), "takes 10; the first failure is request 0"},
		"the canary is said to fail": {append([]Answer{{Backend: "canary", Problem: "no colour"}}, answers("cccsssssss")...), ""},
	} {
		t.Run(name, func(t *testing.T) { requireError(t, test.Check(tc.answers, "canary"), tc.err) })
	}
}

// TestShareTestTells20From23 judges picks at random as it judges Envoy's: 20 is
// taken, and 23 and 17 are not. Each draw goes otherwise once in 10⁶ times; the
// seeds are fixed, so that it is the same in each run.
func TestShareTestTells20From23(t *testing.T) {
	test := NewShareTest(20, 3)
	for seed := range uint64(20) {
		for weight, taken := range map[int]bool{20: true, 23: false, 17: false} {
			random := rand.New(rand.NewPCG(seed, uint64(weight)))
			picks := make([]Answer, test.Requests)
			for i := range picks {
				picks[i] = Answer{Number: i, Backend: "stable"}
				if random.IntN(100) < weight {
					picks[i].Backend = "canary"
				}
			}
			if err := test.Check(picks, "canary"); (err == nil) != taken {
				t.Errorf("seed %d: picks with a weight of %d, judged as 20: %v", seed, weight, err)
			}
		}
	}
}
