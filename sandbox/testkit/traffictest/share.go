package traffictest

import (
	"sync"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
)

const (
	// smoothSample is the number of requests by which a share is judged if the choice
	// is smooth.
	smoothSample = 300
	// Margin is the deviation, in percentage points, that is detected if the choice is
	// random: 20 is told from 17 and from 23, with either error once in 10⁶ times
	// (traffic.ShareTest), which takes some 6,000 requests.
	Margin = 3
)

// RequireShare fails the test unless a backend gets the percentage of the requests that
// is its weight, 1..99: if the choice is smooth, weight of any 100 in a row, give or
// take one; if it is random, a share that is not off by Margin. sample sends count
// requests and returns the answers. They are sent one after the other if ordered is
// true; otherwise in any order, as fast as they are answered.
func RequireShare(t testing.TB, p Proxy, backend string, weight int, sample func(count int, ordered bool) []traffic.Answer) {
	t.Helper()
	RequireShareWithin(t, p, backend, weight, Margin, sample)
}

// RequireShareWithin is RequireShare with the caller's margin, for requests that cost
// too much to send as many as Margin takes.
func RequireShareWithin(t testing.TB, p Proxy, backend string, weight, margin int, sample func(count int, ordered bool) []traffic.Answer) {
	t.Helper()
	if err := p.CheckShare(t, backend, weight, margin, sample); err != nil {
		t.Error(err)
	}
}

// Ask calls ask count times, and returns the answers: one call after the other if
// ordered is true, otherwise several at a time.
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

// CheckShare is RequireShareWithin for a share that may not be reached yet: it returns
// what is wrong instead of failing the test.
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
