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
	// memoryInterval is the interval at which the memory in use is read.
	memoryInterval = 100 * time.Millisecond
	// collectInterval is the least interval of garbage collections while memory is short,
	// or may be: only a collection shows how much is in use.
	collectInterval = time.Second
	// collectPart bounds the part of the time that these take: one tenth.
	collectPart = 10
)

// memory tells whether the process uses so much memory that new requests are refused.
// Beyond Go's limit (GOMEMLIMIT), garbage collection takes the CPU time that requests
// need, and the kernel soon kills the process.
type memory struct {
	// short tells that nine tenths of the limit are in use: requests of objects that have
	// more than an equal share of those under way are refused. From half a twentieth more
	// on it is scarce: those of namespaces that have more are refused, whatever the object.
	// When another half is in use it is out: all new requests are refused.
	short, scarce, out atomic.Bool
	// room is how many requests the memory between short and out is enough for.
	room atomic.Int64
	// over tells that more than the limit is in use: new connections are closed. A
	// connection takes more than 10 KB before its first request.
	over atomic.Bool
	// keepIdle are functions, one for each server, that turn HTTP keep-alive on or
	// off.
	keepIdle []func(bool)
}

// update sets the marks by the bytes in use, and tells whether short has changed.
// Memory stays short until a twentieth of the limit has been freed, so that short does
// not change with every collection.
func (m *memory) update(used, limit uint64) (changed bool) {
	m.over.Store(used > limit)
	twentieth := limit / 20
	m.scarce.Store(used > 37*twentieth/2)
	m.out.Store(used > 19*twentieth)
	m.room.Store(int64(twentieth / largestRequest))
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

// WatchMemory watches the memory in use until ctx ends. While it is short, the Proxy
// refuses some of the new requests, and its Servers close idle HTTP/1 connections. Without
// GOMEMLIMIT memory is never short. All Servers must be made before the call.
func (p *Proxy) WatchMemory(ctx context.Context) {
	ticker := time.NewTicker(memoryInterval)
	defer ticker.Stop()
	var next time.Time // no collection before
	for {
		used, most, limit := memoryInUse()
		changed, short := p.memory.update(used, limit), p.memory.short.Load()
		switch {
		case changed && short:
			p.log.Warn("memory is short: HTTPScaledObjects with more than an equal share of the requests under way get 503. Raise the memory limit and GOMEMLIMIT, or run more replicas", "bytes", used, "GOMEMLIMIT", limit)
		case changed:
			p.log.Info("memory is no longer short", "bytes", used, "GOMEMLIMIT", limit)
		}
		if begun := time.Now(); (short || mayBeShort(most, limit)) && !begun.Before(next) {
			runtime.GC()
			next = begun.Add(collectAgain(time.Since(begun)))
		}
		select {
		case <-ctx.Done():
			p.memory.update(0, limit)
			return
		case <-ticker.C:
		}
	}
}

// mayBeShort tells whether memory is nearly short if there is no garbage. Without a
// collection, it would be out before the next one shows that it is short.
func mayBeShort(most, limit uint64) bool { return limit != math.MaxInt64 && most > limit/20*17 }

// collectAgain returns how long after the begin of a collection the next one begins at the
// earliest. An interceptor may have little memory to spare for hours: collections must not
// take the time of its requests.
func collectAgain(took time.Duration) time.Duration {
	return max(collectInterval, collectPart*took)
}

// memoryInUse returns the bytes in use, as of the latest collection, and Go's limit.
// Garbage does not count: it is normal that the heap grows up to the limit before it is
// collected. What was allocated since the latest collection, and may be garbage or not,
// counts only in most.
func memoryInUse() (used, most, limit uint64) {
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
		return 0, 0, limit
	}
	// Memory that is not heap, such as stacks, and the live heap.
	used = samples[2].Value.Uint64() + samples[1].Value.Uint64()
	for _, notLive := range samples[3:] {
		used -= min(used, notLive.Value.Uint64())
	}
	most = used + samples[3].Value.Uint64() - min(samples[3].Value.Uint64(), samples[1].Value.Uint64())
	return used, most, limit
}
