// Package headroom has Go's garbage collector work less often while little
// memory is in use. By itself it lets garbage grow to what is alive, which for a
// proxy of a few routes is some megabytes: it then collects thirty times a second
// under load, which takes an eighth of a processor and makes every hundredth
// request wait.
package headroom

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// least is the proportion of garbage to what is alive, in percent, that is left
// where much is alive; half of Go's own.
const least = 50

// smallest is what Go takes for alive, in bytes, when less is.
const smallest = 4 << 20

// Interceptor is what the interceptor keeps, in bytes: enough for a second of
// one busy processor, and for ten thousand HTTPScaledObjects with half as much
// garbage again.
const Interceptor = 208 << 20

// Keep has the heap grow to so many bytes at least before garbage is collected,
// and to half as much again as is alive. It is for the whole process, and
// does nothing when the environment says GOGC; GOMEMLIMIT there goes before it.
func Keep(heap uint64) {
	if os.Getenv("GOGC") == "" {
		k := &keeper{heap: heap, percent: 100} // Go's own
		k.adjust()
		k.again()
	}
}

type keeper struct {
	heap    uint64
	percent int // in force
}

// cycle is garbage from the start, to be told when it is collected.
type cycle struct{ _ *int }

// again adjusts after the next collection, and each after it.
func (k *keeper) again() {
	runtime.AddCleanup(new(cycle), func(k *keeper) {
		k.adjust()
		k.again()
	}, k)
}

// adjust sets the proportion that leads from what is alive now to the heap. The
// collector counts stacks and globals as it counts the heap.
func (k *keeper) adjust() {
	alive := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"},
	}
	metrics.Read(alive)
	sum := uint64(0)
	for _, sample := range alive {
		if sample.Value.Kind() == metrics.KindUint64 {
			sum += sample.Value.Uint64()
		}
	}
	sum = max(sum, smallest)
	percent := max(int(100*(max(k.heap, sum)-sum)/sum), least)
	// Setting it takes the lock of the heap: not for next to nothing.
	if difference := percent - k.percent; difference > k.percent/10 || -difference > k.percent/10 {
		debug.SetGCPercent(percent)
		k.percent = percent
	}
}
