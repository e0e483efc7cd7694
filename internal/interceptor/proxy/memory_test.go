package proxy

import (
	"math"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
)

// garbage keeps the compiler from leaving out what nobody uses.
var garbage []byte

// When nine tenths of GOMEMLIMIT are in use new requests are refused, those under way
// go on, and new ones are served again when there is memory. Garbage is not in use.
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

	// A limit that 128 MiB more than now are too much for.
	taken := make([]byte, 128<<20)
	runtime.GC()
	debug.SetMemoryLimit(1 << 40) // used is counted with a limit alone
	used, _ := memoryInUse()
	limit := int64(used / 95 * 100)
	runtime.KeepAlive(taken)
	taken = nil
	runtime.GC()
	debug.SetMemoryLimit(limit)
	for range 20 {
		for range 16 {
			garbage = make([]byte, 1<<20) // more than a tenth of the limit in all
		}
		if code := status(); code != http.StatusOK {
			t.Fatalf("with %d of %d bytes in use answered %d", used-128<<20, limit, code)
		}
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
	runtime.KeepAlive(taken)
	taken = nil
	eventually(t, "new requests are served", func() bool { return status() == http.StatusOK })
	for _, says := range []string{"memory is short", "memory is no longer short"} {
		if n := strings.Count(log.String(), says); n != 1 {
			t.Errorf("the log says %d times that %s:\n%s", n, says, log.String())
		}
	}
}

// Without a limit no memory is too much.
func TestWithoutALimitMemoryIsNeverShort(t *testing.T) {
	if used, limit := memoryInUse(); used != 0 || limit != math.MaxInt64 {
		t.Errorf("%d of %d bytes; want 0 of all", used, limit)
	}
}
