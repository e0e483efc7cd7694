package main

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/loadgen"
	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/proxyworld"
)

const (
	connections = 64
	// The proxies take turns, so that other load on the machine affects all of
	// them; the median of the rounds counts.
	throughputRounds = 24
	// Some warm-up rounds do not count: connections are made, and heaps have not
	// yet grown to their full size.
	warmRounds = 2
	warmTime   = 300 * time.Millisecond
	roundTime  = time.Second
)

// The least ratios of the embedded proxy's rate to that of a ReverseProxy, and to Envoy's
// with one processor and with more; and the highest ratio of its p99 to a ReverseProxy's.
const (
	rateBar, envoyRateBar, envoyRateBarOfMore = 0.9, 0.85, 0.8
	tailBar                                   = 1.5
)

func processorsOf(n int) string {
	if n == 1 {
		return "1 processor"
	}
	return fmt.Sprint(n, " processors")
}

// of returns the median of a figure over the rounds.
func (c *contestant) of(figure func(*loadgen.Result) float64) float64 {
	values := make([]float64, len(c.results))
	for i, r := range c.results {
		values[i] = figure(r)
	}
	return gauge.Median(values)
}

func (c *contestant) rate() float64 { return c.of((*loadgen.Result).Rate) }

// beside returns the median of the ratios to another proxy's rate in the same round:
// if the machine is faster or slower for some rounds, that affects both.
func (c *contestant) beside(other *contestant) float64 {
	ratios := make([]float64, len(c.results))
	for i, r := range c.results {
		ratios[i] = r.Rate() / other.results[i].Rate()
	}
	return gauge.Median(ratios)
}

// throughput measures the proxies, each with the given number of workers, in turn
// with the same requests.
func (w *world) throughput(ctx context.Context, workers int) error {
	if err := proxyworld.Move(w.Processors.Others(workers)); err != nil {
		return err
	}
	defer func() { _ = proxyworld.Move(w.Processors.All) }()
	contestants, end, err := w.startContestants(ctx, workers)
	defer end()
	if err != nil {
		return err
	}
	gauge.Say("throughput with %s: %d rounds of %s for each of %d proxies", processorsOf(workers), throughputRounds, warmTime+roundTime, len(contestants))
	ceiling, err := w.round(&contestant{name: "the application", address: proxyworld.StableAddress})
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
	return w.printThroughput(ctx, workers, contestants, ceiling, after.since(before))
}

// rounds runs n rounds of each proxy.
func (w *world) rounds(ctx context.Context, n int, contestants []*contestant) error {
	for range n {
		for _, c := range contestants {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			result, err := w.round(c)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			c.results = append(c.results, result)
		}
	}
	return nil
}

// round has the clients send requests to one proxy, or to an application.
func (w *world) round(c *contestant) (*loadgen.Result, error) {
	r := loadgen.Round{
		Target: c.address, Host: proxyworld.Host(proxied), Path: "/cart?id=1",
		Connections: connections, Warm: warmTime, Measure: roundTime,
	}
	if c.process == nil {
		return w.Run(r)
	}
	var err error
	if r.Processes, err = c.process.PIDs(); err != nil {
		return nil, err
	}
	result, err := w.Run(r)
	if err != nil {
		return nil, err
	}
	// A random pick is off by more than 7 standard deviations in one of 10^11
	// rounds.
	if share := canaryShare(result); math.Abs(share-0.2) > 7*math.Sqrt(0.2*0.8/float64(result.Requests)) {
		return nil, fmt.Errorf("the canary got %.1f %% of the requests, and not 20: %v", 100*share, result.Answers)
	}
	return result, nil
}

func canaryShare(r *loadgen.Result) float64 {
	return float64(r.Answers["canary"]) / float64(r.Requests)
}

func (w *world) printThroughput(ctx context.Context, workers int, contestants []*contestant, ceiling *loadgen.Result, perRequest allocations) error {
	byName := map[string]*contestant{}
	for _, c := range contestants {
		byName[c.name] = c
	}
	own, floor, envoy := byName[embedded], byName[reverseProxy], byName[envoyName]
	p99 := func(c *contestant) float64 {
		return c.of(func(r *loadgen.Result) float64 { return gauge.Milliseconds(r.P99) })
	}
	table := gauge.NewTable(fmt.Sprintf("%s, %d connections", processorsOf(workers), connections) + "\trequests/s\tof ReverseProxy\tof Envoy\tp50\tp99\tprocessor time\tmemory\tcanary\tclients busy")
	for _, c := range contestants {
		resident, err := c.process.Resident()
		if err != nil {
			return err
		}
		table.Row("%s\t%.0f\t%.2f\t%.2f\t%.2f ms\t%.2f ms\t%.1f µs\t%.0f MB\t%.1f %%\t%.0f %%", c.name, c.rate(), c.beside(floor), c.beside(envoy),
			c.of(func(r *loadgen.Result) float64 { return gauge.Milliseconds(r.P50) }),
			p99(c),
			c.of(func(r *loadgen.Result) float64 { return float64(r.CPUPerRequest()) / 1e3 }),
			resident, 100*c.of(canaryShare),
			c.of(func(r *loadgen.Result) float64 { return 100 * float64(r.OwnCPU) / float64(r.Elapsed) }))
	}
	table.Row("no proxy: the ceiling\t%.0f\t%.2f\t%.2f\t%.2f ms\t%.2f ms\t\t\t\t", ceiling.Rate(), ceiling.Rate()/floor.rate(), ceiling.Rate()/envoy.rate(), gauge.Milliseconds(ceiling.P50), gauge.Milliseconds(ceiling.P99))
	table.Print()
	bars := gauge.NewTable("what\tmeasured\tbar")
	ofEnvoy := envoyRateBarOfMore
	if workers == 1 {
		ofEnvoy = envoyRateBar
	}
	for _, against := range []struct {
		*contestant
		least float64
	}{{floor, rateBar}, {envoy, ofEnvoy}} {
		ratio := own.beside(against.contestant)
		bars.Row("embedded proxy, requests/s with %s, beside %s's\t%.2f\tat least %.2f %s", processorsOf(workers), against.name, ratio, against.least, gauge.Mark(ratio >= against.least))
	}
	tail := p99(own) / p99(floor)
	bars.Row("embedded proxy, p99 with %s, beside %s's\t%.2f\tat most %.2f %s", processorsOf(workers), floor.name, tail, tailBar, gauge.Mark(tail <= tailBar))
	bars.Row("embedded proxy, allocations a request\t%.1f, %.0f bytes\t", perRequest.count, perRequest.bytes)
	bars.Print()
	return ctx.Err()
}

// allocations are the interceptor's allocations and requests.
type allocations struct{ count, bytes, requests float64 }

func countAllocations(ctx context.Context) (a allocations, err error) {
	_, page, err := proxyworld.Get(ctx, http.DefaultClient, proxyworld.MetricsURL, "")
	if err != nil {
		return a, err
	}
	for _, m := range []struct {
		name string
		into *float64
	}{
		{"go_memstats_mallocs_total", &a.count}, {"go_memstats_alloc_bytes_total", &a.bytes}, {"interceptor_requests_total", &a.requests},
	} {
		found := false
		if *m.into, found = proxyworld.Metric(page, m.name); !found {
			return a, fmt.Errorf("%s has no %s", proxyworld.MetricsURL, m.name)
		}
	}
	return a, nil
}

// since returns the allocations per request since before, and the number of
// requests.
func (a allocations) since(before allocations) allocations {
	requests := a.requests - before.requests
	return allocations{count: (a.count - before.count) / requests, bytes: (a.bytes - before.bytes) / requests, requests: requests}
}
