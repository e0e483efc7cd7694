package proxy

import (
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// BenchmarkCountLoad compares the proxy with one that does not count requests for scalers.
// Each iteration is a round of both, in turn. It reports the medians of the ratios of their
// requests a second, and of their processor time. Clients and applications are in this
// process, and take their share of both.
func BenchmarkCountLoad(b *testing.B) {
	const requests = 20_000
	counted, uncounted := benchWorld(b), benchWorld(b)
	uncounted.proxy.handler = chain(withoutCountLoad(b, uncounted.proxy.handlers()), http.HandlerFunc(uncounted.proxy.forward))
	// Each proxy has connections of its own.
	clients := map[*world]benchConnections{}
	for _, w := range []*world{counted, uncounted} {
		clients[w] = dialBench(b, w.address, benchClientCount)
		clients[w].send(b, requests)
	}
	var rates, times []float64
	order := []*world{counted, uncounted}
	for b.Loop() {
		took, cpu := map[*world]time.Duration{}, map[*world]time.Duration{}
		for _, w := range order {
			began, before := time.Now(), processorTime(b)
			clients[w].send(b, requests)
			took[w], cpu[w] = time.Since(began), processorTime(b)-before
		}
		rates = append(rates, float64(took[uncounted])/float64(took[counted]))
		times = append(times, float64(cpu[counted])/float64(cpu[uncounted]))
		slices.Reverse(order)
	}
	slices.Sort(rates)
	slices.Sort(times)
	b.ReportMetric(rates[len(rates)/2], "rate-of-uncounted")
	b.ReportMetric(times[len(times)/2], "cpu-of-uncounted")
}

// withoutCountLoad returns the handlers without countLoad.
func withoutCountLoad(b *testing.B, handlers []func(http.Handler) http.Handler) []func(http.Handler) http.Handler {
	without := slices.DeleteFunc(slices.Clone(handlers), func(h func(http.Handler) http.Handler) bool {
		return strings.HasSuffix(runtime.FuncForPC(reflect.ValueOf(h).Pointer()).Name(), ".countLoad-fm")
	})
	if len(without) != len(handlers)-1 {
		b.Fatalf("%d of %d handlers are left without countLoad", len(without), len(handlers))
	}
	return without
}
