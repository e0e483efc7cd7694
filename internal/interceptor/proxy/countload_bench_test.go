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
// Each iteration is a round of both, in turn; of-uncounted is the median of the ratios of
// their requests a second. Clients and applications are in this process, and take their
// share of the time.
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
	var ratios []float64
	order := []*world{counted, uncounted}
	for b.Loop() {
		took := map[*world]time.Duration{}
		for _, w := range order {
			began := time.Now()
			clients[w].send(b, requests)
			took[w] = time.Since(began)
		}
		ratios = append(ratios, float64(took[uncounted])/float64(took[counted]))
		slices.Reverse(order)
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "of-uncounted")
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
