package loads

import (
	"fmt"
	"io"
	"runtime"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// BenchmarkMessage makes messages to one scaler of 10,000 objects, of which none or all have
// changed, and reports the memory of an object's counters.
func BenchmarkMessage(b *testing.B) {
	const objects = 10_000
	for _, changed := range []int{0, objects} {
		b.Run(fmt.Sprint(changed, " changed"), func(b *testing.B) {
			names := make([]types.NamespacedName, objects)
			for i := range names {
				names[i] = types.NamespacedName{Namespace: "demo", Name: fmt.Sprintf("app-%05d", i)}
			}
			before := heap()
			l := New(always)
			all := make([]*Counters, objects)
			for i := range all {
				all[i] = l.Own().Counters(names[i])
			}
			bytes := float64(heap()-before) / objects
			r := &reader{}
			l.changesFor(r)
			for b.Loop() {
				for _, c := range all[:changed] {
					c.Count(1)
				}
				if err := write(io.Discard, l.changesFor(r)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(bytes, "B/object")
		})
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkShortStreams opens and ends 10,000 streams between two messages to a scaler.
func BenchmarkShortStreams(b *testing.B) {
	l, r := New(always), &reader{}
	l.readers[r] = struct{}{}
	for b.Loop() {
		for range 10_000 {
			s := l.Stream("10.0.0.1", "")
			s.Report(nil)
			s.End()
		}
		l.changesFor(r)
	}
}
