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
	// memoryLook is the interval at which the memory in use is read.
	memoryLook = 100 * time.Millisecond
	// memoryCollect is the interval of garbage collections while memory is short: only
	// a collection shows how much is free again.
	memoryCollect = 2 * time.Second
)

// memory tells whether the process uses so much memory that new requests are refused:
// nine tenths of Go's limit (GOMEMLIMIT). Beyond the limit, garbage collection takes the
// CPU time that requests need, and the kernel soon kills the process.
type memory struct {
	short atomic.Bool
	// over tells that more than the limit is in use: new connections are closed. A
	// connection takes more than 10 KB before its first request.
	over atomic.Bool
	// keepIdle are functions, one for each server, that turn HTTP keep-alive on or
	// off.
	keepIdle []func(bool)
}

// note sets short and over by the bytes in use, and tells whether short has changed.
// Memory stays short until a twentieth of the limit has been freed, so that short does
// not change with every collection.
func (m *memory) note(used, limit uint64) (changed bool) {
	m.over.Store(used > limit)
	twentieth := limit / 20
	was := m.short.Load()
	short := used > 18*twentieth || was && used > 17*twentieth
	m.short.Store(short)
	if short == was {
		return false
	}
	for _, keep := range m.keepIdle {
		keep(!short)
	}
	return true
}

// WatchMemory has new requests refused and idle HTTP/1 connections closed while
// memory is short, until ctx ends. Without GOMEMLIMIT memory is never short. All
// Servers must be made before the call.
func (p *Proxy) WatchMemory(ctx context.Context) {
	look := time.NewTicker(memoryLook)
	defer look.Stop()
	var collected time.Time
	for {
		used, limit := memoryInUse()
		changed, short := p.memory.note(used, limit), p.memory.short.Load()
		switch {
		case changed && short:
			p.log.Warn("memory is short: new requests are answered 503. Raise the memory limit and GOMEMLIMIT, or run more replicas", "bytes", used, "GOMEMLIMIT", limit)
		case changed:
			p.log.Info("memory is no longer short", "bytes", used, "GOMEMLIMIT", limit)
		}
		if short && time.Since(collected) >= memoryCollect {
			runtime.GC()
			collected = time.Now()
		}
		select {
		case <-ctx.Done():
			p.memory.note(0, limit)
			return
		case <-look.C:
		}
	}
}

// memoryInUse returns the bytes in use, as of the latest collection, and Go's limit.
// Garbage does not count: it is normal that the heap grows up to the limit before it is
// collected.
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
	// Memory that is not heap, such as stacks, and the live heap.
	used = samples[2].Value.Uint64() + samples[1].Value.Uint64()
	for _, notLive := range samples[3:] {
		used -= min(used, notLive.Value.Uint64())
	}
	return used, limit
}
