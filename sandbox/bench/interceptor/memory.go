package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/loadgen"
	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/proxyworld"
)

// The bars for the interceptor's peak memory, in MB: under load with few objects,
// and with many objects and an Envoy connected.
const (
	fewBar  = 60
	manyBar = 200
	// envoyBar is that of this Envoy.
	envoyBar = 900
)

// loadTime is how long there is load before memory is measured.
const loadTime = 10 * time.Second

// underLoad measures the memory of an interceptor with few objects.
func (w *world) underLoad(ctx context.Context, f *gauge.Table) error {
	interceptor, err := w.StartInterceptor(ctx, w.Processors.All)
	if err != nil {
		return err
	}
	defer interceptor.End()
	gauge.Say("%s of load with %d HTTPScaledObjects", loadTime, w.Objects)
	result, err := w.Run(loadgen.Round{
		Target: proxyworld.InterceptorAddress, Host: proxyworld.Host(proxied), Path: "/cart?id=1", Connections: connections, Measure: loadTime,
	})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, interceptor.Log)
	}
	peak, err := interceptor.Peak()
	if err != nil {
		return err
	}
	f.Row("memory of the interceptor, %d objects, %.0f requests/s\t%.0f MB at its peak\tat most %d MB %s", w.Objects, result.Rate(), peak, fewBar, gauge.Mark(peak <= fewBar))
	return nil
}

// settle is how long to wait at least, once the Envoy serves the last object, until
// the interceptor has grown to its full size.
const settle = 2 * time.Second

// printMemory adds rows for the memory of an interceptor and of its Envoy. alone is
// the interceptor's memory before the Envoy connected, in MB; took is the time from
// the Envoy's start to serving.
func (w *world) printMemory(ctx context.Context, f *gauge.Table, interceptor, fleet *proxyworld.Process, alone float64, took time.Duration) error {
	select {
	case <-time.After(settle):
	case <-ctx.Done():
		return ctx.Err()
	}
	own, err := interceptor.Resident()
	if err != nil {
		return err
	}
	peak, err := interceptor.Peak()
	if err != nil {
		return err
	}
	theirs, err := fleet.Resident()
	if err != nil {
		return err
	}
	_, page, err := proxyworld.Get(ctx, http.DefaultClient, proxyworld.MetricsURL, "")
	if err != nil {
		return err
	}
	goal, found := proxyworld.Metric(page, "go_memstats_next_gc_bytes")
	if !found {
		return fmt.Errorf("%s has no size at which the heap is collected", proxyworld.MetricsURL)
	}
	f.Row("memory of the interceptor, %d objects, one Envoy connected\t%.0f MB, %.0f MB at its peak; %.0f MB before it connected\tat most %d MB %s", w.Objects, own, peak, alone, manyBar, gauge.Mark(peak <= manyBar))
	f.Row("  of it the heap, when garbage is collected\t%.0f MB\t", goal/1e6)
	f.Row("Envoy, %d objects\t%.0f MB; %.1f s from its start to serving\tat most %d MB %s", w.Objects, theirs, took.Seconds(), envoyBar, gauge.Mark(theirs <= envoyBar))
	return nil
}
