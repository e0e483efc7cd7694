package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/proxyworld"
)

const (
	// rateBar is the least ratio of the requests a second with counting to those without.
	rateBar = 0.98
	// rateRounds is how many rounds each of the two has, in turn; the median of the ratios
	// counts.
	rateRounds = 24
	// roundSeconds is how long each round is.
	roundSeconds = 2
)

// rate measures the requests a second of both proxies, with and without counting.
func (w *world) rate(ctx context.Context) error {
	embedded, err := w.embeddedRate(ctx)
	if err != nil {
		return fmt.Errorf("embedded proxy: %w", err)
	}
	envoy, err := w.envoyRate(ctx)
	if err != nil {
		return fmt.Errorf("Envoy: %w", err)
	}
	table := gauge.NewTable("with counting, beside without\trequests/s\tbar\tprocessor time a request")
	table.Row("embedded proxy\t%s\t%.3f", gauge.AtLeast(embedded.rate, rateBar), embedded.cpu)
	table.Row("Envoy\t%s\t%.3f", gauge.AtLeast(envoy.rate, rateBar), envoy.cpu)
	table.Print()
	return nil
}

// ratios are of requests a second, and of the processor time of a request. On a busy machine
// the second says more than the first.
type ratios struct{ rate, cpu float64 }

// embeddedRate returns the ratios that the benchmark beside the code measures: only a test
// can leave the counting out. Their processor time has that of clients and applications.
func (w *world) embeddedRate(ctx context.Context) (r ratios, err error) {
	gauge.Say("embedded proxy: %d rounds with and without counting", rateRounds)
	cmd := exec.CommandContext(ctx, w.proxy, "-test.run", "^$", "-test.bench", "^BenchmarkCountLoad$", "-test.benchtime", fmt.Sprint(rateRounds, "x"))
	cmd.Stderr = os.Stderr
	output, err := cmd.Output()
	if err != nil {
		return r, fmt.Errorf("%w\n%s", err, output)
	}
	for name, into := range map[string]*float64{"rate-of-uncounted": &r.rate, "cpu-of-uncounted": &r.cpu} {
		found := regexp.MustCompile(`\s([\d.]+) ` + name).FindSubmatch(output)
		if found == nil {
			return r, fmt.Errorf("the benchmark has no %s:\n%s", name, output)
		}
		if *into, err = strconv.ParseFloat(string(found[1]), 64); err != nil {
			return r, err
		}
	}
	return r, nil
}

// envoyRate returns the medians of the ratios of Envoys with load reports to those without.
// Each round has a new process, as two processes of the same Envoy differ, too. Envoy has a
// processor of its own.
func (w *world) envoyRate(ctx context.Context) (ratios, error) {
	back, err := w.KeepFree(1)
	if err != nil {
		return ratios{}, err
	}
	defer back()
	interceptor, err := w.StartInterceptor(ctx)
	if err != nil {
		return ratios{}, err
	}
	defer interceptor.End()
	gauge.Say("Envoy: %d rounds with and without load reports", rateRounds)
	var rates, times []float64
	order := []bool{true, false}
	for range rateRounds {
		results := map[bool]proxyworld.Result{}
		for _, loadReports := range order {
			if results[loadReports], err = w.envoyRound(ctx, loadReports); err != nil {
				return ratios{}, fmt.Errorf("%w\n%s", err, interceptor.Log)
			}
		}
		with, without := results[true], results[false]
		rates = append(rates, with.Rate/without.Rate)
		times = append(times, float64(with.ProxyCPU)/float64(without.ProxyCPU))
		slices.Reverse(order)
	}
	return ratios{gauge.Median(rates), gauge.Median(times)}, nil
}

func (w *world) envoyRound(ctx context.Context, loadReports bool) (r proxyworld.Result, err error) {
	envoy, err := w.StartEnvoy(ctx, 1, loadReports)
	if err != nil {
		return r, err
	}
	defer envoy.End()
	return w.Run(ctx, proxyworld.EnvoyAddress, proxyworld.Host(0), roundSeconds, envoy)
}
