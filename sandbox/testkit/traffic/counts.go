package traffic

import "time"

// Counts is what answers add up to.
type Counts struct {
	// Requests is how many there are; each is in Backends or in Failed.
	Requests int
	Backends map[string]int
	Failed   []Answer
	// Slowest is the longest latency of a request.
	Slowest time.Duration
}

// Count adds answers up.
func Count(answers []Answer) Counts {
	c := Counts{Requests: len(answers), Backends: make(map[string]int)}
	for _, a := range answers {
		c.Slowest = max(c.Slowest, a.Latency())
		if a.Failed() {
			c.Failed = append(c.Failed, a)
		} else {
			c.Backends[a.Backend]++
		}
	}
	return c
}

// Share returns the percentage of a backend among the requests that did not
// fail; 0 if there are none.
func (c Counts) Share(backend string) float64 {
	answered := c.Requests - len(c.Failed)
	if answered == 0 {
		return 0
	}
	return 100 * float64(c.Backends[backend]) / float64(answered)
}
