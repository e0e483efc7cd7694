package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/loadgen"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/proxyworld"
)

const (
	// rateBar is the least ratio of the requests a second with counting to those without.
	rateBar = 0.98
	// rateRounds is how many rounds each of the two has, in turn; the median of the ratios
	// counts.
	rateRounds  = 24
	connections = 64
	warmTime    = time.Second
	roundTime   = time.Second
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
	table := gauge.NewTable("requests/s with counting, beside those without\tmeasured\tbar")
	table.Row("embedded proxy\t%.3f\tat least %.2f %s", embedded, rateBar, gauge.Mark(embedded >= rateBar))
	table.Row("Envoy\t%.3f\tat least %.2f %s", envoy, rateBar, gauge.Mark(envoy >= rateBar))
	table.Print()
	return nil
}

// ratio is a figure of BenchmarkCountLoad.
var ratio = regexp.MustCompile(`(?m)^BenchmarkCountLoad\S*\s.*\s([\d.]+) of-uncounted\b`)

// embeddedRate returns the ratio that the benchmark beside the code measures: only a test
// can leave the counting out.
func (w *world) embeddedRate(ctx context.Context) (float64, error) {
	gauge.Say("embedded proxy: %d rounds with and without counting", rateRounds)
	cmd := exec.CommandContext(ctx, w.proxy, "-test.run", "^$", "-test.bench", "^BenchmarkCountLoad$", "-test.benchtime", fmt.Sprint(rateRounds, "x"))
	cmd.Stderr = os.Stderr
	output, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("%w\n%s", err, output)
	}
	found := ratio.FindSubmatch(output)
	if found == nil {
		return 0, fmt.Errorf("the benchmark does not say what counting costs:\n%s", output)
	}
	return strconv.ParseFloat(string(found[1]), 64)
}

// envoyRate returns the median of the ratios of Envoys with load reports to those without.
// Each round has a new process, as two processes of the same Envoy differ, too. Envoy has a
// processor of its own.
func (w *world) envoyRate(ctx context.Context) (float64, error) {
	if err := proxyworld.Move(w.Processors.Others(1)); err != nil {
		return 0, err
	}
	defer func() { _ = proxyworld.Move(w.Processors.All) }()
	interceptor, err := w.StartInterceptor(ctx, w.Processors.Others(1))
	if err != nil {
		return 0, err
	}
	defer interceptor.End()
	gauge.Say("Envoy: %d rounds of %s with and without load reports", rateRounds, roundTime)
	var ratios []float64
	for range rateRounds {
		with, errWith := w.envoyRound(ctx, true)
		without, errWithout := w.envoyRound(ctx, false)
		if err := errors.Join(errWith, errWithout); err != nil {
			return 0, fmt.Errorf("%w\n%s", err, interceptor.Log)
		}
		ratios = append(ratios, with.Rate()/without.Rate())
	}
	return gauge.Median(ratios), nil
}

func (w *world) envoyRound(ctx context.Context, loadReports bool) (*loadgen.Result, error) {
	envoy, err := w.StartEnvoy(ctx, 1, loadReports)
	if err != nil {
		return nil, err
	}
	defer envoy.End()
	return w.Run(loadgen.Round{
		Target: proxyworld.EnvoyAddress, Host: proxyworld.Host(0), Path: "/cart?id=1",
		Connections: connections, Warm: warmTime, Measure: roundTime,
	})
}
