package main

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"os"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/proxyworld"
)

const (
	// The proxies take turns, so that other load on the machine affects all of
	// them; the median of the rounds counts.
	throughputRounds = 24
	roundSeconds     = 2
	// Some warm-up rounds do not count: connections are made, and heaps have not
	// yet grown to their full size.
	warmRounds = 2
)

// The least ratios of the embedded proxy's rate to that of a ReverseProxy, and to Envoy's
// with one processor and with more; and the highest ratio of its p99 to a ReverseProxy's.
const (
	rateBar, envoyRateBar, envoyRateBarOfMore = 0.9, 0.85, 0.8
	tailBar                                   = 1.5
)

// throughput measures the proxies, each with the given number of workers, in turn
// with the same requests.
func (w *world) throughput(ctx context.Context, workers int) error {
	back, err := w.KeepFree(workers)
	if err != nil {
		return err
	}
	defer back()
	dir, err := os.MkdirTemp("", "nginx-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	contestants, end, err := w.startContestants(ctx, dir, workers)
	defer end()
	if err != nil {
		return err
	}
	gauge.Say("throughput with processors: %d; %d rounds of %d s for each of %d proxies", workers, throughputRounds, roundSeconds, len(contestants))
	ceiling, err := w.Run(ctx, proxyworld.StableAddress, proxyworld.Host(proxied), roundSeconds, nil)
	if err != nil {
		return err
	}
	if err := w.rounds(ctx, warmRounds, contestants); err != nil {
		return err
	}
	for _, c := range contestants {
		c.results = nil
	}
	before, err := countAllocations(ctx)
	if err != nil {
		return err
	}
	if err := w.rounds(ctx, throughputRounds, contestants); err != nil {
		return err
	}
	after, err := countAllocations(ctx)
	if err != nil {
		return err
	}
	return printThroughput(workers, contestants, ceiling, after.since(before))
}

// rounds runs n rounds of each proxy.
func (w *world) rounds(ctx context.Context, n int, contestants []*contestant) error {
	for range n {
		for _, c := range contestants {
			result, err := w.Run(ctx, c.address, proxyworld.Host(proxied), roundSeconds, c.process)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			// A random pick is off by more than 7 standard deviations in one of 10^11 rounds.
			if math.Abs(result.Canary-0.2) > 7*math.Sqrt(0.2*0.8/float64(result.Requests)) {
				return fmt.Errorf("%s: the canary got %.1f %% of %d requests, and not 20", c.name, 100*result.Canary, result.Requests)
			}
			c.results = append(c.results, result)
		}
	}
	return nil
}

// of returns the median of a figure over the rounds.
func (c *contestant) of(figure func(proxyworld.Result) float64) float64 {
	values := make([]float64, len(c.results))
	for i, r := range c.results {
		values[i] = figure(r)
	}
	return gauge.Median(values)
}

func (c *contestant) rate() float64 {
	return c.of(func(r proxyworld.Result) float64 { return r.Rate })
}

func (c *contestant) p99() float64 {
	return c.of(func(r proxyworld.Result) float64 { return gauge.Milliseconds(r.P99) })
}

// beside returns the median of the ratios to another proxy's rate in the same round:
// if the machine is faster or slower for some rounds, that affects both.
func (c *contestant) beside(other *contestant) float64 {
	ratios := make([]float64, len(c.results))
	for i, r := range c.results {
		ratios[i] = r.Rate / other.results[i].Rate
	}
	return gauge.Median(ratios)
}

func printThroughput(workers int, contestants []*contestant, ceiling proxyworld.Result, perRequest allocations) error {
	own, floor, envoy := contestants[0], contestants[1], contestants[2]
	table := gauge.NewTable(fmt.Sprintf("processors: %d, connections: %d\trequests/s\tof ReverseProxy\tof Envoy\tp50\tp99\tprocessor time\tmemory\tclients busy", workers, proxyworld.Connections))
	for _, c := range contestants {
		resident, err := c.process.Resident()
		if err != nil {
			return err
		}
		table.Row("%s\t%.0f\t%.2f\t%.2f\t%.2f ms\t%.2f ms\t%.1f µs\t%.0f MB\t%.0f %%", c.name, c.rate(), c.beside(floor), c.beside(envoy),
			c.of(func(r proxyworld.Result) float64 { return gauge.Milliseconds(r.P50) }), c.p99(),
			c.of(func(r proxyworld.Result) float64 { return float64(r.ProxyCPU) / 1e3 }), resident,
			c.of(func(r proxyworld.Result) float64 { return 100 * r.Busy }))
	}
	table.Row("no proxy: the ceiling\t%.0f\t%.2f\t%.2f\t%.2f ms\t%.2f ms\t\t\t", ceiling.Rate, ceiling.Rate/floor.rate(), ceiling.Rate/envoy.rate(), gauge.Milliseconds(ceiling.P50), gauge.Milliseconds(ceiling.P99))
	table.Print()
	ofEnvoy := envoyRateBarOfMore
	if workers == 1 {
		ofEnvoy = envoyRateBar
	}
	bars := gauge.NewTable(fmt.Sprintf("embedded proxy, processors: %d\tmeasured\tbar", workers))
	bars.Row("requests/s beside ReverseProxy's\t%s", gauge.AtLeast(own.beside(floor), rateBar))
	bars.Row("requests/s beside Envoy's\t%s", gauge.AtLeast(own.beside(envoy), ofEnvoy))
	bars.Row("p99 beside ReverseProxy's\t%s", gauge.AtMost(own.p99()/floor.p99(), tailBar))
	bars.Row("allocations a request\t%.1f, %.0f bytes\t", perRequest.count, perRequest.bytes)
	bars.Print()
	return nil
}

// allocations are the interceptor's allocations and requests.
type allocations struct{ count, bytes, requests float64 }

func countAllocations(ctx context.Context) (a allocations, err error) {
	_, page, err := gauge.Get(ctx, http.DefaultClient, proxyworld.MetricsURL, "")
	if err != nil {
		return a, err
	}
	for name, into := range map[string]*float64{
		"go_memstats_mallocs_total": &a.count, "go_memstats_alloc_bytes_total": &a.bytes, "interceptor_requests_total": &a.requests,
	} {
		if *into, err = gauge.Metric(page, name, gauge.All); err != nil {
			return a, err
		}
	}
	return a, nil
}

// since returns the allocations for each request since before.
func (a allocations) since(before allocations) allocations {
	requests := a.requests - before.requests
	return allocations{(a.count - before.count) / requests, (a.bytes - before.bytes) / requests, requests}
}
