package proxy

import "sync"

// chooser spreads the requests of one route over its backends by smooth weighted
// round robin: each request credits every backend with its share, goes to the one with
// the most credit, and costs that one the sum of the shares.
type chooser struct {
	mu      sync.Mutex
	shares  []int64
	credits []int64 // their sum is 0
	total   int64
}

// newChooser makes a chooser for backends of these services and shares. It goes on
// with the credits that the services had before, scaled to the new sum of the shares:
// a change of weights then neither gives a backend a turn twice nor skips its turn.
func newChooser(services []string, shares []uint32, before *chooser, servicesBefore []string) *chooser {
	c := &chooser{shares: make([]int64, len(shares)), credits: make([]int64, len(shares))}
	for i, share := range shares {
		c.shares[i] = int64(share)
		c.total += int64(share)
	}
	if before == nil || c.total == 0 {
		return c
	}
	before.mu.Lock()
	defer before.mu.Unlock()
	if before.total == 0 {
		return c
	}
	scale := float64(c.total) / float64(before.total)
	var sum int64
	best := 0
	for i, service := range services {
		if c.shares[i] > c.shares[best] {
			best = i
		}
		// A backend without a share keeps no credit: if it gets a share later, it
		// starts from 0.
		if c.shares[i] == 0 {
			continue
		}
		for j, old := range servicesBefore {
			if old == service && before.shares[j] > 0 {
				c.credits[i] = int64(float64(before.credits[j]) * scale)
				sum += c.credits[i]
			}
		}
	}
	c.credits[best] -= sum
	return c
}

// next returns the index of the backend whose turn it is, -1 when none has a
// share.
func (c *chooser) next() int {
	if c.total == 0 {
		return -1
	}
	if len(c.shares) == 1 {
		return 0
	}
	c.mu.Lock()
	best := -1
	for i, share := range c.shares {
		if share == 0 {
			continue
		}
		c.credits[i] += share
		if best < 0 || c.credits[i] > c.credits[best] {
			best = i
		}
	}
	c.credits[best] -= c.total
	c.mu.Unlock()
	return best
}

// hasShare tells whether a backend gets requests.
func (c *chooser) hasShare(index int) bool { return c.shares[index] > 0 }

// other returns the index of the backend with the largest share apart from the one at
// index not; -1 when no other has a share. It gets a request that could not be sent to
// that one.
func (c *chooser) other(not int) int {
	best := -1
	for i, share := range c.shares {
		if i != not && share > 0 && (best < 0 || share > c.shares[best]) {
			best = i
		}
	}
	return best
}
