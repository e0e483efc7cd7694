package traffictest

import (
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/traffic"
)

const (
	// sampleSize is how many requests a share is measured by.
	sampleSize = 300
	// samples bounds how often a share is measured anew that a random pick would
	// not have given 999 times in 1,000: three times in a row that is chance once
	// in 10⁹.
	samples = 3
)

// RequireShare fails the test unless a backend gets its weight of 0..100 of the
// requests: of any 100 in a row so many, give or take one, where the choice is
// smooth; within a 99.9 % interval where it is random. sample sends so many
// requests, one after the other, and returns the answers.
func RequireShare(t testing.TB, p Proxy, backend string, weight int, sample func(count int) []traffic.Answer) {
	t.Helper()
	var err error
	for range samples {
		answers := sample(sampleSize)
		t.Logf("%s at a weight of %d got %d of %d requests", backend, weight, traffic.Count(answers).Backends[backend], len(answers))
		if err = p.checkShare(answers, backend, weight); err == nil || p.Smooth {
			break
		}
	}
	if err != nil {
		t.Error(err)
	}
}

func (p Proxy) checkShare(answers []traffic.Answer, backend string, weight int) error {
	if p.Smooth {
		return traffic.CheckSmooth(answers, backend, weight)
	}
	return traffic.CheckRandom(answers, backend, weight, 1)
}
