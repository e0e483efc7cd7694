package proxy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

func TestAnyHundredConsecutiveRequestsHoldTheShares(t *testing.T) {
	tests := []struct {
		shares []uint32
		slack  float64
	}{
		{[]uint32{80, 20}, 1}, {[]uint32{20, 80}, 1}, {[]uint32{99, 1}, 1}, {[]uint32{50, 50}, 1},
		{[]uint32{2, 1}, 1}, {[]uint32{97, 3}, 1}, {[]uint32{1, 1_000_000}, 1}, {[]uint32{2147483647, 536870911}, 1},
		{[]uint32{33, 67, 0}, 1}, {[]uint32{60, 30, 10}, 2}, {[]uint32{10, 20, 30, 40}, 2},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.shares), func(t *testing.T) {
			names := services(len(tt.shares))
			c := newChooser(names, tt.shares, nil, nil)
			var picks []int
			for range 5000 {
				picks = append(picks, c.next())
			}
			checkWindows(t, picks, tt.shares, tt.slack)
		})
	}
}

func TestSharesHoldUnderConcurrency(t *testing.T) {
	c := newChooser(services(2), []uint32{80, 20}, nil, nil)
	var mu sync.Mutex
	var picks []int
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				mu.Lock() // so that the order of the picks is known
				picks = append(picks, c.next())
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	checkWindows(t, picks, []uint32{80, 20}, 1)
}

// A canary whose weight rises by one per cent every few requests gets, in sum, what the
// weights asked for: no change of weights gives it an extra turn or skips its turn.
func TestChangesOfWeightsKeepTheSum(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	names := services(2)
	var c *chooser
	asked, got := 0.0, 0
	for weight := range uint32(101) {
		c = newChooser(names, []uint32{100 - weight, weight}, c, names)
		for range random.IntN(30) {
			asked += float64(weight) / 100
			got += c.next()
		}
		// A backend that gains or loses its share is owed up to one turn then; any
		// backend is owed up to one.
		if diff := float64(got) - asked; diff > 2 || diff < -2 {
			t.Fatalf("at weight %d the canary has %d requests, asked for were %.2f", weight, got, asked)
		}
	}
}

func TestChooserWithoutShares(t *testing.T) {
	for _, shares := range [][]uint32{nil, {0}, {0, 0}} {
		c := newChooser(services(len(shares)), shares, newChooser(services(2), []uint32{1, 2}, nil, nil), services(2))
		if got := c.next(); got != -1 {
			t.Errorf("shares %v: chose %d, want none", shares, got)
		}
	}
}

func services(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("s", i)
	}
	return names
}

func checkWindows(t *testing.T, picks []int, shares []uint32, slack float64) {
	t.Helper()
	var total float64
	for _, share := range shares {
		total += float64(share)
	}
	for window := range slices.Values([]int{100, 10, 1}) {
		for begin := 0; begin+window <= len(picks); begin++ {
			count := make([]float64, len(shares))
			for _, pick := range picks[begin : begin+window] {
				count[pick]++
			}
			for i, share := range shares {
				want := float64(window) * float64(share) / total
				if diff := count[i] - want; diff > slack || diff < -slack {
					t.Fatalf("picks %d to %d hold %v of backend %d, want %.2f ± %v", begin, begin+window, count[i], i, want, slack)
				}
			}
		}
	}
}
