package traffic

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
)

// pick draws answers as a proxy with a weight would give them.
func pick(random *rand.Rand, weight float64, count int) []Answer {
	picks := make([]Answer, count)
	for i := range picks {
		picks[i] = Answer{Backend: "stable"}
		if random.Float64() < weight/100 {
			picks[i].Backend = "canary"
		}
	}
	return picks
}

// judge gives a test answers, a batch at a time, until it decides.
func judge(test ShareTest, random *rand.Rand, weight float64) (answers []Answer, err error) {
	for decided := false; !decided; {
		answers = append(answers, pick(random, weight, ShareBatch)...)
		decided, err = test.Judge(answers, "canary")
	}
	return answers, err
}

// A ShareTest accepts the right weight, and refuses one that is off by the margin
// or more. Each draw goes wrong once in 10⁶ times; the seeds are fixed, so that
// every run draws the same.
func TestShareTestTellsAWeightFromOneThatIsOff(t *testing.T) {
	for _, tc := range []struct {
		weight, margin int
		most           float64 // requests on average, where the weight is right
	}{
		{20, 3, 7500}, {80, 3, 7500}, {50, 3, 11000}, {30, 3, 9500}, {70, 3, 9500}, {60, 3, 10500}, {1, 3, 1500}, {99, 3, 1500}, {3, 3, 2000}, {20, 10, 1000},
	} {
		t.Run(fmt.Sprintf("%d ± %d", tc.weight, tc.margin), func(t *testing.T) {
			test, sent := ShareTest{tc.weight, tc.margin}, 0
			const runs = 20
			for seed := range uint64(runs) {
				random := rand.New(rand.NewPCG(seed, 1))
				answers, err := judge(test, random, float64(tc.weight))
				if err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
				sent += len(answers)
				for _, off := range []int{tc.margin, 2 * tc.margin, -tc.margin, -2 * tc.margin} {
					weight := tc.weight + off
					if weight < 0 || weight > 100 {
						continue
					}
					if _, err := judge(test, random, float64(weight)); err == nil {
						t.Errorf("seed %d: a weight of %d passes", seed, weight)
					}
				}
			}
			if average := float64(sent) / runs; average > tc.most {
				t.Errorf("it takes %.0f requests, want %.0f at most", average, tc.most)
			}
		})
	}
}

// A backend that gets no request, or all, is refused, however small or large its
// weight.
func TestShareTestRefusesNothingAndAll(t *testing.T) {
	for weight, given := range map[int]float64{1: 0, 2: 0, 98: 100, 99: 100} {
		if _, err := judge(ShareTest{weight, 3}, rand.New(rand.NewPCG(1, 1)), given); err == nil {
			t.Errorf("a weight of %d passes with a share of %v", weight, given)
		}
	}
}

// A share between the weight and one that is off is decided at last.
func TestShareTestEnds(t *testing.T) {
	for seed := range uint64(20) {
		answers, _ := judge(ShareTest{20, 3}, rand.New(rand.NewPCG(seed, 2)), 21.5)
		if most := (ShareTest{20, 3}).most() + ShareBatch; len(answers) > most {
			t.Errorf("seed %d: %d answers, want %d at most", seed, len(answers), most)
		}
	}
}

// A ShareTest decides by the likelihood ratio, worked out here with fractions. To
// stop at a ratio of 2 to 10⁻⁶ is wrong once in 10⁶ times at most, on each of two
// sides, however often the ratio is checked (Ville's inequality).
func TestShareTestStopsWhereTheErrorRateIsMet(t *testing.T) {
	test := ShareTest{20, 3}
	likelier := func(wanted, of int, off int64) float64 {
		power := func(r *big.Rat, n int) *big.Float {
			result := new(big.Float).SetPrec(200).SetInt64(1)
			factor := new(big.Float).SetPrec(200).SetRat(r)
			for range n {
				result.Mul(result, factor)
			}
			return result
		}
		ratio := power(big.NewRat(20+off, 20), wanted)
		ratio.Mul(ratio, power(big.NewRat(80-off, 80), of-wanted))
		exact, _ := ratio.Float64()
		return exact
	}
	decided := map[[2]bool]int{}
	for _, of := range []int{500, 2000, 6000, 12000} {
		for wanted := of * 15 / 100; wanted <= of*26/100; wanted += max(1, of/400) {
			ratio := max(likelier(wanted, of, 3), likelier(wanted, of, -3))
			right, wrong := test.decide(wanted, of)
			if right != (ratio <= ErrorRate) || wrong != (ratio >= 2/ErrorRate) {
				t.Errorf("%d of %d: right %t, wrong %t; likelier by %g if it is off", wanted, of, right, wrong, ratio)
			}
			decided[[2]bool{right, wrong}]++
		}
	}
	if len(decided) != 3 {
		t.Errorf("not all decisions have come up: %v", decided)
	}
}

func TestShareTestCountsFailuresForNobody(t *testing.T) {
	test := ShareTest{20, 3}
	failed := Answer{Backend: "canary", Problem: "status 503"}
	random := rand.New(rand.NewPCG(4, 4))
	answers, err := judge(test, random, 20)
	if err != nil {
		t.Fatal(err)
	}
	mixed := answers
	for range len(answers) / 4 {
		mixed = append(mixed, failed)
	}
	if decided, err := test.Judge(mixed, "canary"); !decided || err != nil {
		t.Errorf("with failures that name the canary: %t, %v", decided, err)
	}
	var all []Answer
	for len(all) < test.most() {
		all = append(all, failed)
	}
	const want = "have failed: too many to judge a share by; the first failure is request 0"
	if decided, err := test.Judge(all, "canary"); !decided || err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("of failures alone: %t, %v; want %q", decided, err, want)
	}
}
