package figures

import (
	"fmt"
	"time"
)

// Bounds of a Window. An object has at most MostSlices slices for each proxy.
const (
	MostSlices    = 1000
	LongestWindow = time.Hour
)

// Window is the time over which requests are counted, Length, and how finely their age is
// known, Granularity.
type Window struct {
	Length, Granularity time.Duration
}

// DefaultWindow is that of an HTTPScaledObject that sets none.
var DefaultWindow = Window{Length: time.Minute, Granularity: time.Second}

// Validate returns an error that names the field and says what to change, unless Length and
// Granularity are above 0, Granularity is at most Length, Length is at most LongestWindow
// and has at most MostSlices times Granularity.
func (w Window) Validate() error {
	switch {
	case w.Length <= 0 || w.Length > LongestWindow:
		return fmt.Errorf("window is %v: set it above 0 and up to %v", w.Length, LongestWindow)
	case w.Granularity <= 0 || w.Granularity > w.Length:
		return fmt.Errorf("granularity is %v: set it above 0 and up to window, %v", w.Granularity, w.Length)
	case w.slices() > MostSlices:
		return fmt.Errorf("window %v has more than %d times granularity %v: set granularity to %v or more",
			w.Length, MostSlices, w.Granularity, ceil(w.Length, MostSlices))
	}
	return nil
}

// slices is how many slices have all of Length.
func (w Window) slices() int64 { return int64(ceil(w.Length, w.Granularity)) }

// covering returns a Window that serves both: a valid one if w and other are valid.
func (w Window) covering(other Window) Window {
	both := Window{max(w.Length, other.Length), min(w.Granularity, other.Granularity)}
	if both.slices() > MostSlices {
		both.Granularity = ceil(both.Length, MostSlices)
	}
	return both
}

func ceil(a, b time.Duration) time.Duration { return (a + b - 1) / b }
