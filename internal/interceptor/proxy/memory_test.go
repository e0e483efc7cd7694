package proxy

import (
	"io"
	"math"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"
)

// garbage keeps the compiler from removing unused allocations.
var garbage []byte

// When nine tenths of GOMEMLIMIT are in use, new requests are refused and requests
// under way go on. When memory is free again, new requests are served.
func TestNewRequestsAreRefusedWhileMemoryIsShort(t *testing.T) {
	w := newWorld(t)
	var log logged
	w.proxy.log = log.logger()
	slow, released := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	w.service("stable", "", w.app(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(slow)
			<-released
		}
	}))
	t.Cleanup(release)
	w.object("")
	w.commit()
	go w.proxy.WatchMemory(t.Context())
	underWay := make(chan int, 1)
	go func() {
		res, _ := w.get("/slow")
		underWay <- res.StatusCode
	}()
	<-slow
	status := func() int {
		res, body := w.get("/")
		if res.StatusCode == http.StatusServiceUnavailable && (res.Header.Get("Retry-After") == "" || !strings.Contains(body, "memory")) {
			t.Errorf("refused with %v %q", res.Header, body)
		}
		return res.StatusCode
	}
	t.Cleanup(func() { debug.SetMemoryLimit(math.MaxInt64) })

	// A limit that has room for the memory in use now, but not for 128 MiB more.
	taken := make([]byte, 128<<20)
	runtime.GC()
	debug.SetMemoryLimit(1 << 40) // used is measured only if there is a limit
	used, _, _ := memoryInUse()
	clear(taken) // it lives until here
	runtime.GC()
	debug.SetMemoryLimit(int64(used / 95 * 100))
	if code := status(); code != http.StatusOK {
		t.Fatalf("with enough memory answered %d", code)
	}

	taken = make([]byte, 128<<20)
	eventually(t, "new requests are refused", func() bool { return status() == http.StatusServiceUnavailable })
	if got := value(t, w.proxy, "interceptor_memory_short"); got != 1 {
		t.Errorf("interceptor_memory_short is %v", got)
	}
	release()
	if code := <-underWay; code != http.StatusOK {
		t.Errorf("the request under way is answered %d", code)
	}
	clear(taken)
	eventually(t, "new requests are served", func() bool { return status() == http.StatusOK })
	for _, says := range []string{"memory is short", "memory is no longer short"} {
		// It is logged a moment after it counts.
		eventually(t, "the log says that "+says, func() bool { return strings.Contains(log.String(), says) })
		if n := strings.Count(log.String(), says); n != 1 {
			t.Errorf("the log says %d times that %s:\n%s", n, says, log.String())
		}
	}
}

// Garbage does not count as memory in use: Go collects it when the heap has grown to
// the limit, so requests would be refused before each collection.
func TestGarbageIsNotInUse(t *testing.T) {
	// No collection runs: garbage that is made during a collection counts as in use
	// until the next.
	debug.SetMemoryLimit(1 << 40)
	t.Cleanup(func() { debug.SetMemoryLimit(math.MaxInt64) })
	collects := debug.SetGCPercent(-1)
	t.Cleanup(func() { debug.SetGCPercent(collects) })
	before, _, _ := memoryInUse()
	for range 128 {
		garbage = make([]byte, 1<<20)
	}
	garbage = nil
	if after, _, _ := memoryInUse(); after > before+16<<20 {
		t.Errorf("%d bytes are in use after 128 MiB of garbage, %d before", after, before)
	}
}

// Without GOMEMLIMIT, memory is never short.
func TestWithoutALimitMemoryIsNeverShort(t *testing.T) {
	if used, _, limit := memoryInUse(); used != 0 || limit != math.MaxInt64 {
		t.Errorf("%d of %d bytes; want 0 of all", used, limit)
	}
}

// Memory stays short until a twentieth of the limit has been freed, so that refusals
// and log lines do not alternate with each collection.
func TestWhenMemoryIsShort(t *testing.T) {
	var m memory
	for i, tt := range []struct {
		used                 uint64
		changed, short, over bool
	}{
		{used: 900},
		{used: 901, changed: true, short: true},
		{used: 899, short: true},
		{used: 851, short: true},
		{used: 1000, short: true},
		{used: 1001, short: true, over: true},
		{used: 1000, short: true},
		{used: 850, changed: true},
		{used: 899},
		{used: 2000, changed: true, short: true, over: true},
		{used: 0, changed: true},
	} {
		changed := m.update(tt.used, 1000)
		if short, over := m.short.Load(), m.over.Load(); changed != tt.changed || short != tt.short || over != tt.over {
			t.Errorf("step %d: with %d of 1000 in use changed %v, short %v, over %v; want %v, %v, %v",
				i, tt.used, changed, short, over, tt.changed, tt.short, tt.over)
		}
	}
}

// An interceptor that has little memory to spare is not kept busy by collections.
func TestCollectionsTakeATenthOfTheTime(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		time.Millisecond:       time.Second,
		100 * time.Millisecond: time.Second,
		200 * time.Millisecond: 2 * time.Second,
		time.Second:            10 * time.Second,
	} {
		if got := collectAgain(took); got != want {
			t.Errorf("after a collection of %v the next one is %v later, want %v", took, got, want)
		}
	}
}

// Idle connections take memory, too: as many as --max-connections allows take more than
// there is.
func TestConnectionsGiveTheirMemoryBackWhileItIsShort(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "", w.app(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	w.object("")
	w.commit()
	served := func() *raw {
		t.Helper()
		c := dial(t, w.address)
		c.send("GET / HTTP/1.1\r\nHost: app.test\r\n\r\n")
		if res, body := c.answer(http.MethodGet); body != "ok" {
			t.Fatalf("answered %s %q", res.Status, body)
		}
		return c
	}
	unused := served()
	// The server notes a moment after its answer that the connection is idle: memory is
	// made short again and again until the connection is closed.
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		unused.closed()
	}()
	eventually(t, "an unused connection is closed", func() bool {
		w.proxy.memory.update(95, 100)
		w.proxy.memory.update(10, 100)
		select {
		case <-gone:
			return true
		default:
			return false
		}
	})
	eventually(t, "it counts no more", func() bool { return value(t, w.proxy, "interceptor_connections", "proxy") == 0 })

	w.proxy.memory.update(101, 100)
	if !dial(t, w.address).closed() {
		t.Error("a connection is open that there is no memory for")
	}
	if n := value(t, w.proxy, "interceptor_connections_refused_total", "proxy"); n != 1 {
		t.Errorf("%v are counted as refused, want 1", n)
	}
	w.proxy.memory.update(10, 100)
	served()
}
