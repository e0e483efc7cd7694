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
type memory struct {
	short atomic.Bool
	// over tells that more than the limit is in use: new connections are closed. One
	// takes more than 10 KB before it asks for anything.
	over atomic.Bool
	// keepIdle tells the servers whether to keep connections without a request.
	keepIdle []func(bool)
}

// note keeps what the use of memory means. Once memory is short it stays so until a
// twentieth of the limit is free again: not every collection changes it.
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

// WatchMemory has new requests refused and unused HTTP/1 connections closed while
// memory is short, until ctx ends. Without GOMEMLIMIT it never is. Servers are made
// before.
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
