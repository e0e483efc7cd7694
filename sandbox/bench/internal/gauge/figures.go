package gauge

import (
	"slices"
	"time"
)

// Mark says whether a bar is met.
func Mark(met bool) string {
	if met {
		return "✓"
	}
	return "✗"
}

// Median returns the middle one of some values; there must be one at least.
func Median[T int | int64 | float64](values []T) T {
	values = slices.Clone(values)
	slices.Sort(values)
	return Quantile(values, 0.5)
}

// Quantile returns the value that a share q (0 to 1) of sorted values does not
// exceed; there must be one value at least.
func Quantile[T any](sorted []T, q float64) T {
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// Milliseconds returns a duration in milliseconds.
func Milliseconds(d time.Duration) float64 { return d.Seconds() * 1e3 }
