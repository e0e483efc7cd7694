package main

import (
	"context"
	"fmt"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
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

// loadSeconds is how long there is load before memory is measured.
const loadSeconds = 10

// underLoad measures the memory of an interceptor with few objects.
func (w *world) underLoad(ctx context.Context, f *gauge.Table) error {
	interceptor, err := w.StartInterceptor(ctx)
	if err != nil {
		return err
	}
	defer interceptor.End()
	gauge.Say("%d s of load with %d HTTPScaledObjects", loadSeconds, w.Objects)
	result, err := w.Run(ctx, proxyworld.InterceptorAddress, proxyworld.Host(proxied), loadSeconds, interceptor)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, interceptor.Log)
	}
	peak, err := interceptor.Peak()
	if err != nil {
		return err
	}
	f.Row("peak memory of the interceptor in MB, %d objects, %.0f requests/s\t%s", w.Objects, result.Rate, gauge.AtMost(peak, fewBar))
	return nil
}

// settle is how long to wait, once the Envoy serves the last object, until
// the interceptor has grown to its full size.
const settle = 2 * time.Second

// printMemory adds rows for the memory of an interceptor and of its Envoy.
func (w *world) printMemory(ctx context.Context, f *gauge.Table, interceptor, fleet *gauge.Process) error {
	if err := gauge.Pause(ctx, settle); err != nil {
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
	f.Row("peak memory of the interceptor in MB, %d objects, one Envoy connected\t%s", w.Objects, gauge.AtMost(peak, manyBar))
	f.Row("memory of that Envoy in MB\t%s", gauge.AtMost(theirs, envoyBar))
	return nil
}
