package traffictest

import (
	"sync"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/traffic"
)

const (
	// smoothSample is how many requests a share is judged by where the choice is
	// smooth.
	smoothSample = 300
	// Margin is by how many percentage points a share may not be off where the
	// choice is random: 20 is told from 17 and from 23, with either error once in
	// 10⁶ times (traffic.ShareTest), which takes some 6,000 requests.
	Margin = 3
)

// RequireShare fails the test unless a backend gets its weight of 1..99 of the
// requests: of any 100 in a row so many, give or take one, where the choice is
// smooth; where it is random, a share that is not off by Margin. sample sends so
// many requests and returns the answers. They are sent one after the other where
// ordered is true; otherwise in any order, as fast as they are answered.
func RequireShare(t testing.TB, p Proxy, backend string, weight int, sample func(count int, ordered bool) []traffic.Answer) {
	t.Helper()
	RequireShareWithin(t, p, backend, weight, Margin, sample)
}

// RequireShareWithin is RequireShare with a margin of the caller's, for requests
// that cost too much to send as many as Margin takes.
func RequireShareWithin(t testing.TB, p Proxy, backend string, weight, margin int, sample func(count int, ordered bool) []traffic.Answer) {
	t.Helper()
	if err := p.CheckShare(t, backend, weight, margin, sample); err != nil {
		t.Error(err)
	}
}

// Ask calls ask for each of so many requests, and returns the answers: one after
// the other where ordered is true, and otherwise some at a time.
func Ask(count int, ordered bool, ask func(number int) traffic.Answer) []traffic.Answer {
	workers := sampleConnections
	if ordered {
		workers = 1
	}
	answers := make([]traffic.Answer, count)
	var asking sync.WaitGroup
	for worker := range workers {
		asking.Go(func() {
			for i := worker; i < count; i += workers {
				answers[i] = ask(i)
				answers[i].Number = i
			}
		})
	}
	asking.Wait()
	return answers
}

// CheckShare is RequireShareWithin for a share that may be another one still: it returns
// what is wrong with it.
func (p Proxy) CheckShare(t testing.TB, backend string, weight, margin int, sample func(count int, ordered bool) []traffic.Answer) error {
	t.Helper()
	begun := time.Now()
	var answers []traffic.Answer
	var err error
	if p.Smooth {
		answers = sample(smoothSample, true)
		err = traffic.CheckSmooth(answers, backend, weight)
	} else {
		test := traffic.ShareTest{Weight: weight, Margin: margin}
		for decided := false; !decided; {
			answers = append(answers, sample(traffic.ShareBatch, false)...)
			decided, err = test.Judge(answers, backend)
		}
	}
	t.Logf("%s: %s at a weight of %d got %d of %d requests, in %s",
		p.Name, backend, weight, traffic.Count(answers).Backends[backend], len(answers), time.Since(begun).Round(time.Millisecond))
	return err
}
