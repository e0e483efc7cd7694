package proxy

import (
	"context"
	"math"
	"runtime"
	runtimemetrics "runtime/metrics"
	"sync/atomic"
	"time"
)

const (
	// memoryLook is how often it is looked at how much memory is in use.
	memoryLook = 100 * time.Millisecond
	// memoryCollect is how often garbage is collected while memory is short: what
	// is free again is not known before.
	memoryCollect = 2 * time.Second
)

// memory tells whether so much of it is in use that new requests are refused: nine
// tenths of Go's limit (GOMEMLIMIT), beyond which the collector takes the time that
// requests need, and the kernel ends the process soon.
type memory struct{ short atomic.Bool }

// WatchMemory has new requests refused while memory is short, until ctx ends. Without
// GOMEMLIMIT it never is.
func (p *Proxy) WatchMemory(ctx context.Context) {
	look := time.NewTicker(memoryLook)
	defer look.Stop()
	var collected time.Time
	for {
		used, limit := memoryInUse()
		short := used > limit/10*9
		if was := p.memory.short.Swap(short); was != short {
			if short {
				p.log.Warn("memory is short: new requests are answered 503. Raise the memory limit and GOMEMLIMIT, or run more replicas", "bytes", used, "GOMEMLIMIT", limit)
			} else {
				p.log.Info("memory is no longer short", "bytes", used, "GOMEMLIMIT", limit)
			}
		}
		if short && time.Since(collected) >= memoryCollect {
			runtime.GC()
			collected = time.Now()
		}
		select {
		case <-ctx.Done():
			p.memory.short.Store(false)
			return
		case <-look.C:
		}
	}
}

// memoryInUse returns the bytes that are in use, as of the latest collection, and
// Go's limit. Garbage does not count: with a limit the heap grows up to it before
// it is collected, and nothing is wrong then.
func memoryInUse() (used, limit uint64) {
	samples := [...]runtimemetrics.Sample{
		{Name: "/gc/gomemlimit:bytes"},
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
	}
	runtimemetrics.Read(samples[:])
	limit = samples[0].Value.Uint64()
	if limit == math.MaxInt64 {
		return 0, limit
	}
	// What is not heap, such as stacks, and of the heap what lives.
	used = samples[2].Value.Uint64() + samples[1].Value.Uint64()
	for _, notLive := range samples[3:] {
		used -= min(used, notLive.Value.Uint64())
	}
	return used, limit
}
