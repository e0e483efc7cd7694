package node

import (
	"cmp"
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// probeKind is one of the three probes of a container.
type probeKind string

const (
	startupProbe   probeKind = "Startup"
	livenessProbe  probeKind = "Liveness"
	readinessProbe probeKind = "Readiness"
)

// probeCount applies the success and failure thresholds to a probe's results.
type probeCount struct {
	success, failure int // thresholds, at least 1

	last bool
	run  int
}

// observe counts a result. decided reports whether as many equal results have come
// in a row as the threshold requires.
func (p *probeCount) observe(ok bool) (decided bool) {
	if p.run == 0 || p.last != ok {
		p.last, p.run = ok, 0
	}
	p.run++
	if ok {
		return p.run >= p.success
	}
	return p.run >= p.failure
}

// probeTiming is when a probe runs, with defaults applied.
type probeTiming struct {
	initialDelay, period, timeout time.Duration
}

func timingOf(p *corev1.Probe) probeTiming {
	return probeTiming{
		initialDelay: time.Duration(p.InitialDelaySeconds) * time.Second,
		period:       time.Duration(cmp.Or(p.PeriodSeconds, 10)) * time.Second,
		timeout:      time.Duration(cmp.Or(p.TimeoutSeconds, 1)) * time.Second,
	}
}

func countOf(p *corev1.Probe) probeCount {
	return probeCount{success: int(cmp.Or(p.SuccessThreshold, 1)), failure: int(cmp.Or(p.FailureThreshold, 3))}
}

// earlyProbes are the waits before extra probes in the first period of a
// container: a container that listens a moment after its start becomes ready a
// moment later, not a whole period later. Failures of the extra probes do not
// count.
var earlyProbes = []time.Duration{
	20 * time.Millisecond, 30 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond,
	300 * time.Millisecond, 300 * time.Millisecond, 500 * time.Millisecond, 500 * time.Millisecond, time.Second, time.Second,
	2 * time.Second, 2 * time.Second,
}

// probeResult is the result of one probe.
type probeResult struct {
	ok     bool
	output string
}

// runProbe probes until ctx ends, and reports each result; of early probes, only
// successes.
func runProbe(ctx context.Context, kind probeKind, timing probeTiming, check func(context.Context) (bool, string), report func(probeResult)) {
	if !sleep(ctx, timing.initialDelay) {
		return
	}
	probe := func(early bool) bool {
		probing, cancel := context.WithTimeout(ctx, timing.timeout)
		defer cancel()
		ok, output := check(probing)
		if ctx.Err() == nil && (ok || !early) {
			report(probeResult{ok: ok, output: output})
		}
		return ok
	}
	// The regular period starts here, however many early probes run.
	ticker := time.NewTicker(timing.period)
	defer ticker.Stop()
	eager := kind != livenessProbe
	if !probe(eager) && eager {
		first := time.Now()
		for _, wait := range earlyProbes {
			if time.Since(first)+wait >= timing.period || !sleep(ctx, wait) || probe(true) {
				break
			}
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			probe(false)
		}
	}
}

// sleep reports whether d passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
