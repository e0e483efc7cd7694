package rolloutsplugin

import (
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
)

// A namespace whose functions do not end keeps its share alone; functions of one namespace
// begin in their order.
func TestShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shares := NewShares(3, 2)
		end := make(chan struct{})
		ran := make(chan string, 100)
		for i := range 10 {
			shares.Go("hangs", func() { ran <- "hangs " + strconv.Itoa(i); <-end })
		}
		for i := range 3 {
			shares.Go("demo", func() { ran <- "demo " + strconv.Itoa(i) })
		}
		received := func(count int) (all []string) {
			synctest.Wait()
			for range count {
				all = append(all, <-ran)
			}
			return all
		}
		begun := received(5)
		slices.Sort(begun)
		if want := []string{"demo 0", "demo 1", "demo 2", "hangs 0", "hangs 1"}; !slices.Equal(begun, want) {
			t.Errorf("begun: %v, want %v", begun, want)
		}
		if n := shares.Waiting("hangs"); n != 8 || len(ran) > 0 {
			t.Errorf("%d wait, %d more have begun, want 8 and 0", n, len(ran))
		}
		close(end)
		received(8)
		shares.mu.Lock()
		defer shares.mu.Unlock()
		if shares.total > 0 || len(shares.running)+len(shares.waiting)+len(shares.turns) > 0 {
			t.Errorf("kept: %d %v %v %v", shares.total, shares.running, shares.waiting, shares.turns)
		}
	})
}
