package headroom

import (
	"runtime"
	"runtime/metrics"
	"testing"
	"time"
)

func read(name string) uint64 {
	s := []metrics.Sample{{Name: name}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// await collects garbage until a condition holds.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !condition(); runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s; the proportion is %d %%, the goal %d bytes", what, read("/gc/gogc:percent"), read("/gc/heap/goal:bytes"))
		}
	}
}

func TestKeep(t *testing.T) {
	const heap = 64 << 20
	before := read("/gc/gogc:percent")
	t.Setenv("GOGC", "50")
	Keep(heap)
	runtime.GC()
	if percent := read("/gc/gogc:percent"); percent != before {
		t.Errorf("GOGC is set, and the proportion became %d %%", percent)
	}
	t.Setenv("GOGC", "")
	Keep(heap)
	await(t, "there is headroom over the little that is alive", func() bool {
		goal := read("/gc/heap/goal:bytes")
		return goal > heap*8/10 && goal < heap*12/10
	})
	much := make([]byte, 4*heap)
	await(t, "much is alive, and the proportion is the least", func() bool { return read("/gc/gogc:percent") == least })
	runtime.KeepAlive(much)
	await(t, "there is headroom again", func() bool {
		goal := read("/gc/heap/goal:bytes")
		return goal > heap*8/10 && goal < heap*12/10
	})
}
