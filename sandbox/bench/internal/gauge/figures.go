package gauge

import (
	"fmt"
	"slices"
	"time"
)

// AtMost and AtLeast are two cells of a table: a figure, and a bar with a mark that says
// whether the figure meets it.
func AtMost(figure, bar float64) string {
	return fmt.Sprintf("%.4g\tat most %v %s", figure, bar, mark(figure <= bar))
}

// AtLeast is like AtMost.
func AtLeast(figure, bar float64) string {
	return fmt.Sprintf("%.4g\tat least %v %s", figure, bar, mark(figure >= bar))
}

// Count is like AtMost, of a number of things.
func Count(n, most int) string { return fmt.Sprintf("%d\tat most %d %s", n, most, mark(n <= most)) }

func mark(met bool) string {
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
