package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/proxyworld"
)

const (
	// changes is even, so that all objects end as they began.
	changes     = 150
	changeEvery = 100 * time.Millisecond
	// pollEvery is the time between two requests that look for the change. It
	// bounds the precision of the figures.
	pollEvery = time.Millisecond
)

// carry measures the interceptor with the objects that exist: how long a weight
// takes from the API server to the first request under it, with the embedded proxy
// and then with an Envoy, and the memory that is used.
func (w *world) carry(ctx context.Context, f *gauge.Table) error {
	interceptor, err := w.StartInterceptor(ctx)
	if err != nil {
		return err
	}
	defer interceptor.End()
	if w.parts.Has("propagation") {
		gauge.Say("%d changes of %d HTTPScaledObjects, one each %s, to the embedded proxy", changes, w.Objects, changeEvery)
		times, err := w.flips(ctx, "http://"+proxyworld.InterceptorAddress.String()+"/")
		if err != nil {
			return fmt.Errorf("embedded proxy: %w\n%s", err, interceptor.Log)
		}
		times.print(f, "embedded proxy", w.Objects, 50*time.Millisecond)
	}
	gauge.Say("%d HTTPScaledObjects for an Envoy", w.Objects)
	fleet, err := w.StartEnvoy(ctx, 2, true)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, interceptor.Log)
	}
	defer fleet.End()
	if w.parts.Has("propagation") {
		gauge.Say("the same changes to Envoy")
		times, err := w.flips(ctx, "http://"+proxyworld.EnvoyAddress.String()+"/")
		if err != nil {
			return fmt.Errorf("Envoy: %w\n%s\n%s", err, fleet.Log, interceptor.Log)
		}
		times.print(f, "Envoy", w.Objects, 100*time.Millisecond)
	}
	return w.printMemory(ctx, f, interceptor, fleet)
}

// flips are the times from changes to the first requests under them: counted from
// just before the patch was sent, and from when the API server had answered it. The
// second is negative if the request came first.
type flips struct{ fromSent, fromAnswered []time.Duration }

func (t *flips) print(f *gauge.Table, who string, objects int, bar time.Duration) {
	slices.Sort(t.fromSent)
	slices.Sort(t.fromAnswered)
	p99 := gauge.Milliseconds(gauge.Quantile(t.fromSent, 0.99))
	cells := fmt.Sprintf("%.1f\t", p99)
	if objects < manyObjects { // which the bar is for
		cells = gauge.AtMost(p99, gauge.Milliseconds(bar))
	}
	f.Row("annotation patched to first request, %d objects, %s: p50 %.1f ms, p99 in ms\t%s", objects, who, gauge.Milliseconds(gauge.Quantile(t.fromSent, 0.5)), cells)
	f.Row("  of it after the API server had answered: p50 %.1f ms, p99 in ms\t%.1f\t", gauge.Milliseconds(gauge.Quantile(t.fromAnswered, 0.5)), gauge.Milliseconds(gauge.Quantile(t.fromAnswered, 0.99)))
}

// flips changes one object after the other, each from all for the stable side to
// all for the canary, and then back.
func (w *world) flips(ctx context.Context, url string) (*flips, error) {
	times := &flips{}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
	defer client.CloseIdleConnections()
	next := time.NewTicker(changeEvery)
	defer next.Stop()
	for number := range changes {
		i := 100 + number/2*7%(w.Objects-100) // not the object that throughput is measured with
		canary, expected := 100, "canary"
		if number%2 == 1 {
			canary, expected = 0, "stable"
		}
		select {
		case <-next.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		body, err := w.ask(ctx, client, url, proxyworld.Host(i))
		if err != nil {
			return nil, err
		}
		if body == expected {
			return nil, fmt.Errorf("%s answers %q before it is to", proxyworld.Host(i), body)
		}
		sent := time.Now()
		var answered time.Time
		patched := make(chan error, 1)
		go func() {
			err := w.SetWeight(ctx, i, canary)
			answered = time.Now()
			patched <- err
		}()
		seen, err := w.until(ctx, client, url, proxyworld.Host(i), expected)
		if err == nil {
			err = <-patched
		}
		if err != nil {
			return nil, err
		}
		times.fromSent = append(times.fromSent, seen.Sub(sent))
		times.fromAnswered = append(times.fromAnswered, seen.Sub(answered))
	}
	return times, nil
}

// until requests a page until its content is expected, and returns when that was.
func (w *world) until(ctx context.Context, client *http.Client, url, host, expected string) (seen time.Time, err error) {
	err = gauge.Poll(ctx, pollEvery, host+" answers "+expected, func() (bool, error) {
		body, err := w.ask(ctx, client, url, host)
		seen = time.Now()
		return body == expected, err
	})
	return seen, err
}

func (w *world) ask(ctx context.Context, client *http.Client, url, host string) (string, error) {
	code, body, err := gauge.Get(ctx, client, url, host)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("%s: %d %s", host, code, strings.TrimSpace(body))
	}
	return body, err
}
