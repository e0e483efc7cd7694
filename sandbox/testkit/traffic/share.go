package traffic

import (
	"fmt"
	"math"
)

// Window is how many consecutive requests the embedded proxy's promise is about: of
// any Window consecutive requests, each backend gets its share, one more, or one
// less.
const Window = 100

// CheckSmooth returns an error unless the number of wanted ones among any Window
// consecutive answers is what a weight of 0..100 gives, one more, or one less. At 0
// and 100, none or all answers have to be wanted ones, however few there are; for
// any other weight, fewer than Window answers prove nothing, and are an error.
//
// The answers must be in the order in which the requests reached the proxy. The
// bound holds for two proxies as well, however the requests are spread over them:
// each proxy is off by less than one.
func CheckSmooth(answers []Answer, wanted string, weight int) error {
	if weight == 0 || weight == 100 {
		return checkAll(answers, wanted, weight)
	}
	if len(answers) < Window {
		return fmt.Errorf("%d requests are too few to judge a share by, which takes %d", len(answers), Window)
	}
	count := 0
	for i, a := range answers {
		if a.Backend == wanted {
			count++
		}
		if i >= Window && answers[i-Window].Backend == wanted {
			count--
		}
		if i < Window-1 {
			continue
		}
		if count < weight-1 || count > weight+1 {
			return fmt.Errorf("of %d consecutive requests, from request %d on, %d went to %s in place of %d ± 1",
				Window, answers[i-Window+1].Number, count, wanted, weight)
		}
	}
	return nil
}

// CheckRandom returns an error if the number of wanted answers is an unlikely one
// for a random pick with a weight of 0..100. of is how many such numbers are judged
// together: with random picks, all of them pass in 999 cases of 1,000. At 0 and
// 100, none or all answers have to be wanted ones; for any other weight, fewer than
// Window answers are an error.
func CheckRandom(answers []Answer, wanted string, weight, of int) error {
	if weight == 0 || weight == 100 {
		return checkAll(answers, wanted, weight)
	}
	if len(answers) < Window {
		return fmt.Errorf("%d requests are too few to judge a share by, which takes %d", len(answers), Window)
	}
	count := Count(answers).Backends[wanted]
	if low, high := BinomialInterval(len(answers), float64(weight)/100, of); count < low || count > high {
		return fmt.Errorf("of %d requests %d went to %s; with a random pick it is %d to %d",
			len(answers), count, wanted, low, high)
	}
	return nil
}

// checkAll is for the weights 0 and 100, which leave the proxy no choice.
func checkAll(answers []Answer, wanted string, weight int) error {
	for _, a := range answers {
		if (a.Backend == wanted) != (weight == 100) {
			return fmt.Errorf("request %d went to %s while the weight of %s was %d", a.Number, a.Backend, wanted, weight)
		}
	}
	return nil
}

// BinomialInterval returns the expected range of the number of successes in n tries
// that succeed with probability p each: fewer than low have a probability of at
// most 0.0005/of, and more than high as well. If of such numbers are judged
// together, all are in their ranges in 99.9 % of all cases. p is from 0 to 1, and
// of at least 1.
func BinomialInterval(n int, p float64, of int) (low, high int) {
	rare := tail / float64(of)
	return lowest(n, p, rare), n - lowest(n, 1-p, rare)
}

const tail = 0.0005

// lowest returns the largest k for which fewer than k successes have a
// probability of at most rare.
func lowest(n int, p, rare float64) int {
	sum := 0.0
	for k := range n {
		sum += probability(n, k, p)
		if sum > rare {
			return k
		}
	}
	return n
}

// probability returns the probability of exactly k successes. It uses logarithms,
// as the factors are too large for a float64.
func probability(n, k int, p float64) float64 {
	switch {
	case p <= 0:
		return one(k == 0)
	case p >= 1:
		return one(k == n)
	}
	all, _ := math.Lgamma(float64(n + 1))
	these, _ := math.Lgamma(float64(k + 1))
	others, _ := math.Lgamma(float64(n - k + 1))
	return math.Exp(all - these - others + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
}

func one(certain bool) float64 {
	if certain {
		return 1
	}
	return 0
}
